"""
Ctrl-C, SIGTERM, and SIGHUP of a closed terminal end the process: with the conventional exit status, and in any case
within `LIMIT_S` seconds, also if it hangs in code that is not Python.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType

LIMIT_S = 8.0
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedBySignal(KeyboardInterrupt):
    """Somebody asked the process to end."""

    def __init__(self, number: int, text: str = "") -> None:
        """
        :param number: of the signal
        :param text: for people
        """
        super().__init__(text or f"interrupted by {signal.Signals(number).name}")
        self.number = number


def exit_status_of(exc: KeyboardInterrupt) -> int:
    """:return: as a shell has it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP"""
    return 128 + (exc.number if isinstance(exc, EndedBySignal) else signal.SIGINT)


def heard_signals() -> list[signal.Signals]:
    """:return: those that end this process; whoever started it with `nohup` wants some to be ignored"""
    return [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


class EndBySignal:
    """While it is entered by the main thread, the signals raise `EndedBySignal` there, and the limit holds."""

    def __init__(self) -> None:
        self._old: dict[signal.Signals, object] = {}
        self._read_end = self._write_end = self._old_wakeup = -1

    def __enter__(self) -> EndBySignal:
        if threading.current_thread() is not threading.main_thread():
            return self
        # Python's handlers run between two steps of the interpreter. This pipe is written at once.
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._old = {number: signal.signal(number, _raise) for number in heard_signals()}
        threading.Thread(target=_watch, args=(self._read_end,), name="end by signal", daemon=True).start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._read_end < 0:
            return
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._old_wakeup)
        if not isinstance(exc, EndedBySignal):  # else what comes after this has to end in time, too
            os.close(self._write_end)


def _raise(number: int, _frame: FrameType | None) -> None:
    raise EndedBySignal(number)


def _watch(read_end: int) -> None:
    while True:
        received = os.read(read_end, 1)
        if not received:
            os.close(read_end)
            return
        if received[0] in ENDING_SIGNALS:
            threading.Event().wait(LIMIT_S)
            if not _is_closed(read_end):
                _end_now(received[0])


def _is_closed(read_end: int) -> bool:
    """:return: whether the context was left, so that somebody has handled the signal"""
    os.set_blocking(read_end, False)
    try:
        while received := os.read(read_end, 1):
            assert received
    except BlockingIOError:
        os.set_blocking(read_end, True)
        return False
    os.set_blocking(read_end, True)
    return True


def _end_now(number: int) -> None:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    place = f" It is in {frame.f_code.co_filename}, line {frame.f_lineno}." if frame is not None else ""
    with contextlib.suppress(OSError):
        name = signal.Signals(number).name
        text = f"{name} came {LIMIT_S:g} s ago, and the process did not end.{place} It is ended now.\n"
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())
    kill_children(os.getpid())
    os._exit(128 + number)


def kill_children(pid: int) -> None:
    """Ends all processes that a process has started, and those that they have started. :param pid: of the process"""
    for child in _children(pid):
        kill_children(child)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                children += map(int, file.read().split())
    return children
