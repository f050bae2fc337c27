"""Says what is waited for, if it takes long, so that nothing hangs in silence, and ends it with an error some time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from returnn.util.errors import UserError

FIRST_REPORT_S = 10.0


def report_to_stderr(text: str) -> None:
    """:param text: a line for people"""
    print(text, file=sys.stderr, flush=True)


class Waiting:
    """For a loop that polls: it calls `check` each time that what it waits for is not there yet."""

    def __init__(
        self, what: str | Callable[[], str], *, limit_s: float, report: Callable[[str], None] = report_to_stderr
    ) -> None:
        """
        :param what: is waited for, for people; a function finds it out when it is needed
        :param limit_s: after that, it is an error
        :param report: gets a line after 10 seconds, 20, 40, ...
        """
        self._what = what
        self._limit_s = limit_s
        self._report = report
        self._start_s = time.monotonic()
        self._next_report_s = FIRST_REPORT_S

    def check(self) -> None:
        """:raises UserError: if it takes longer than the limit"""
        waited_s = time.monotonic() - self._start_s
        if waited_s >= self._limit_s:
            raise UserError(f"waited for {waited_s:.0f} s: {self._text()}.\n  That is the limit, so this ends here.")
        if waited_s >= self._next_report_s:
            self._next_report_s *= 2
            self._report(f"waiting for {waited_s:.0f} s now: {self._text()}")

    def _text(self) -> str:
        return self._what if isinstance(self._what, str) else self._what()
