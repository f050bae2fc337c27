"""Says what is waited for, if it takes long, so that nothing hangs in silence, and ends it with an error some time."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from returnn.util.errors import UserError
from returnn.util.system.end_by_signal import LIMIT_S, kill_children

FIRST_REPORT_S = 10.0


def report_to_stderr(text: str) -> None:
    """:param text: a line for people"""
    print(text, file=sys.stderr, flush=True)


def state_of_process(pid: int | None) -> str | None:
    """
    :param pid: of a process that is waited for
    :return: what keeps it from going on, for people; None if there is no such reason
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf8", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except OSError:
        return None
    return {"T": "was stopped (SIGSTOP)", "t": "is stopped by a debugger", "D": "waits for a disk"}.get(state)


def describe_process(what: str, pid: int | None) -> str:
    """:return: e.g. "RASR, process 123, which was stopped (SIGSTOP)\""""
    state = state_of_process(pid)
    return f"{what}, process {pid}{f', which {state}' if state else ''}"


@contextlib.contextmanager
def said_if_long(
    what: str, *, limit_s: float | None = None, report: Callable[[str], None] = report_to_stderr
) -> Iterator[None]:
    """
    For what does not return before it is done: while it takes long, says where it is.

    :param what: is done in the context, for people
    :param limit_s: after that, it is an error. Only the main thread can be interrupted, so only there
    :param report: gets a line after 10 seconds, 20, 40, ...
    :raises UserError: after the limit
    """
    watch = _Watch(what, limit_s if threading.current_thread() is threading.main_thread() else None, report)
    threading.Thread(target=watch.run, name="said if long", daemon=True).start()
    try:
        yield
    except BaseException as exc:
        if watch.error is None:
            raise
        raise UserError(watch.error) from exc
    finally:
        watch.is_done.set()


class _Watch:
    """What looks at the thread that has made it."""

    def __init__(self, what: str, limit_s: float | None, report: Callable[[str], None]) -> None:
        self.is_done = threading.Event()
        self.error: str | None = None
        self._what = what
        self._limit_s = math.inf if limit_s is None else limit_s
        self._report = report
        self._thread_id = threading.get_ident()

    def run(self) -> None:
        """Until it is done, or over."""
        start_s, next_report_s, waited_s = time.monotonic(), FIRST_REPORT_S, 0.0
        while not self.is_done.wait(min(next_report_s, self._limit_s) - waited_s):
            waited_s = time.monotonic() - start_s
            if waited_s >= self._limit_s:
                self._interrupt(f"{self._what} took {waited_s:.0f} s{place_of_thread(self._thread_id)}.")
                return
            if waited_s >= next_report_s:
                self._report(f"{self._what} takes {waited_s:.0f} s now{place_of_thread(self._thread_id)}")
                next_report_s = 2 * waited_s

    def _interrupt(self, problem: str) -> None:
        """Ends what the thread waits for by a signal, and if it does not listen, the process."""
        self.error = f"{problem}\n  That is the limit, so this ends here."
        signal.pthread_kill(self._thread_id, signal.SIGINT)
        if not self.is_done.wait(LIMIT_S):
            self._report(f"error: {self.error}")
            kill_children(os.getpid())
            os._exit(1)


def place_of_thread(thread_id: int) -> str:
    """:return: where a thread is, as the end of a sentence; nothing if it has ended"""
    frame = sys._current_frames().get(thread_id)
    return f", in {frame.f_code.co_filename}, line {frame.f_lineno}" if frame is not None else ""


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
