"""What a step asks whether it is finite: then it most likely leaves out losses that are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from returnn.tensor import Tensor

_watches: list[list[Tensor]] = []


@contextmanager
def watched_is_finite() -> Iterator[list[Tensor]]:
    """:return: what `rf.is_finite` gets in the `with` block"""
    found: list[Tensor] = []
    _watches.append(found)
    try:
        yield found
    finally:
        _watches.remove(found)


def note_is_finite(x: Tensor) -> None:
    """:param x: is asked whether it is finite"""
    for found in _watches:
        found.append(x)
