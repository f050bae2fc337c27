"""
Code of users that reads values of templates, which have none.

Most of it fails at once, as None has no method. A loop until some value is true, which None never is, would not end.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from returnn.util.errors import DimError

_TOOLKIT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "")
_MOST_READS = 100  # at one place, which a loop over layers or data keys stays below

counts: list[Counter[tuple[str, int]]] = []  # of reads by place, of each `limited_reads`


class NoValueError(DimError):
    """A tensor is a condition of Python, and has no value yet."""


class EndlessReadsError(Exception):
    """One place reads values of templates again and again. No error of the user, as there are values in a run."""

    def __init__(self, place: traceback.FrameSummary) -> None:
        """:param place: that reads"""
        super().__init__("a loop that goes by values has no end")
        self.place = place


@contextmanager
def limited_reads() -> Iterator[None]:
    """:return: context in which a place that reads values of templates in a loop without end is an error"""
    counts.append(Counter())
    try:
        yield
    finally:
        counts.pop()


def note_read() -> None:
    """
    To be called by the property that somebody has read without getting a value.

    :raises EndlessReadsError: if it was that often at the same place outside of the toolkit
    """
    frame = sys._getframe(2)
    filename, line = frame.f_code.co_filename, frame.f_lineno
    if filename.startswith(_TOOLKIT):
        return
    counts[-1][filename, line] += 1
    if counts[-1][filename, line] > _MOST_READS:
        raise EndlessReadsError(traceback.FrameSummary(filename, line, frame.f_code.co_name))
