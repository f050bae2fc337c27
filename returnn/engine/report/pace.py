"""
How long the rest of a pass over a data set takes.

An epoch does not go at one pace: where sequences are ordered by length, its parts take longer or shorter than their
number of frames says. So the first epoch tells by its steps so far, and the others by the epoch before: how much of its
time was spent behind this point, and whether this epoch goes slower or faster than that one so far.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy

_MIN_FRAC = 0.002  # between two points that are kept
_UNSURE_FRAC = 0.05  # of the first epoch: what it says so far is little
_TRUSTED_SHARE = 0.05  # of the time of the epoch before, which counts as if this epoch had gone so before it began


class Pace:
    """Of the passes over one data set, one after the other."""

    def __init__(self) -> None:
        self._before: list[tuple[float, float]] = []  # of the last whole pass: what was complete, and the seconds
        self._points: list[tuple[float, float]] = []  # the same of this pass

    def begin(self) -> None:
        """A pass begins."""
        if self._is_whole():
            self._before = self._points
        self._points = []

    def add(self, complete_frac: float, seconds: float) -> None:
        """
        :param complete_frac: of the pass, 0 to 1, after a step
        :param seconds: since the pass began
        """
        if not self._points or complete_frac - self._points[-1][0] >= _MIN_FRAC or complete_frac >= 1:
            self._points.append((complete_frac, seconds))

    def remaining(self, complete_frac: float, seconds: float) -> float | None:
        """
        :param complete_frac: as for `add`
        :param seconds: as for `add`
        :return: seconds to the end, by all steps but the first one, which takes longer than the others; None: not known
        """
        if complete_frac >= 1:
            return 0.0
        if not self._points:
            return None
        first_frac, first_seconds = self._points[0]
        if self._before:
            until = _seconds_until(self._before)
            trusted = _TRUSTED_SHARE * until(1.0)
            ratio = (seconds - first_seconds + trusted) / (until(complete_frac) - until(first_frac) + trusted)
            return (until(1.0) - until(complete_frac)) * ratio
        if complete_frac <= first_frac:
            return None
        return (seconds - first_seconds) / (complete_frac - first_frac) * (1 - complete_frac)

    def is_unsure(self, complete_frac: float) -> bool:
        """:return: whether so little is known that the remaining time is only about right"""
        return not self._before and complete_frac < _UNSURE_FRAC

    def _is_whole(self) -> bool:
        points = self._points
        if len(points) < 3 or points[0][0] > 0.1 or points[-1][0] < 1:  # one that went on, or was stopped
            return False
        return points[-1][1] > points[0][1]


class Paces(defaultdict[str, Pace]):
    """That of each data set, by its name."""

    def __init__(self) -> None:
        super().__init__(Pace)


def _seconds_until(points: list[tuple[float, float]]) -> Callable[[float], float]:
    """:return: function from what is complete to the seconds since the first step"""
    fracs, seconds = numpy.array(points).T
    return lambda frac: float(numpy.interp(frac, fracs, seconds - seconds[0]))
