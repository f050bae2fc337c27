"""
Whether code has to be traceable as one static graph, as for `torch.compile` or an ONNX export.

Code that decides by values (a mask is only needed if sequences differ in length) has to take the general way then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_flags = [False]
_generation = [0]


def is_static_traceable() -> bool:
    """:return: whether code has to be traceable"""
    return _flags[-1]


def set_static_traceable(flag: bool) -> None:
    """Says whether code has to be traceable from now on."""
    if flag != _flags[-1]:
        _generation[0] += 1
    _flags[-1] = flag


@contextlib.contextmanager
def set_static_traceable_ctx(flag: bool = True) -> Iterator[None]:
    """Says whether code has to be traceable, inside of the `with` block."""
    _flags.append(_flags[-1])
    set_static_traceable(flag)
    try:
        yield
    finally:
        if _flags.pop() != _flags[-1]:
            _generation[0] += 1


def static_traceable_generation() -> int:
    """:return: a number that is another one after each change, for those who keep what they computed"""
    return _generation[0]


__all__ = [
    "is_static_traceable",
    "set_static_traceable",
    "set_static_traceable_ctx",
    "static_traceable_generation",
]
