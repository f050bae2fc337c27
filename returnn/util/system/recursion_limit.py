"""Python's limit on nested calls, raised for as long as something needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def more_recursion(num_calls: int) -> Iterator[None]:
    """
    Inside of the `with` block, more calls can be nested than usual.

    :param num_calls: how many more
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + num_calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
