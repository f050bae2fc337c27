"""
Gradients that are made after a session has run.

TensorFlow gives a loop or a condition more outputs when its gradient is made, as that needs what was computed inside.
A session that knows the operation already does not take them. So scripts, which initialize parameters first and make
gradients then, get all of these outputs at once. What is not needed is pruned before it runs, but takes time to make;
so it is left out where it is known that gradients come first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

_come_first = False
_may_come_later = False


@contextlib.contextmanager
def gradients_come_first() -> Iterator[None]:
    """Inside of the `with` block, graphs are made that no session runs before they have their gradients."""
    global _come_first
    before, _come_first = _come_first, True
    _output_all(None)
    try:
        yield
    finally:
        _come_first = before
        _output_all(True if _may_come_later and not before else None)


def allow_later_gradients() -> None:
    """From now on, loops and conditions are made such that gradients may come later, and gradients accordingly."""
    global _may_come_later
    if not _come_first:
        _may_come_later = True
        _output_all(True)


def _output_all(state: bool | None) -> None:
    tf.compat.v1.experimental.output_all_intermediates(state)
