"""`Watch`: what functions of the frontend get while somebody looks, such as the check of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Watch(Generic[T]):
    """A function notes what it gets; who wants to know it, looks."""

    def __init__(self) -> None:
        """Nobody looks."""
        self._seen: list[list[T]] = []

    def note(self, item: T) -> None:
        """:param item: what the function gets"""
        for seen in self._seen:
            seen.append(item)

    @contextmanager
    def look(self) -> Iterator[list[T]]:
        """:return: what is noted in the `with` block"""
        seen: list[T] = []
        self._seen.append(seen)
        try:
            yield seen
        finally:
            self._seen = [other for other in self._seen if other is not seen]


IS_FINITE: Watch[object] = Watch()  # what `rf.is_finite` gets: a step that asks most likely leaves out what is not
