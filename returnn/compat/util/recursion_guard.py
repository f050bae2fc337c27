"""Finds a function that calls itself with the same arguments, long before Python's own limit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

_local = threading.local()


class InfiniteRecursionDetected(Exception):
    """A function was called with the same arguments from inside of itself."""


@contextlib.contextmanager
def guard_infinite_recursion(*args: Any) -> Iterator[None]:
    """
    :param args: what the call is about; compared by identity
    :raises InfiniteRecursionDetected: if this context with the same arguments is open already, in this thread
    """
    active = _local.__dict__.setdefault("active", {})
    key = tuple(map(id, args))
    if key in active:
        raise InfiniteRecursionDetected(f"infinite recursion with {args!r}")
    active[key] = args
    try:
        yield
    finally:
        del active[key]
