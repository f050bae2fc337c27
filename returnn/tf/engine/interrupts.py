"""Ctrl-C, SIGTERM and SIGHUP: the step is finished, then the pass ends."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from returnn.util.system.end_by_signal import EndedBySignal, heard_signals


class InterruptedRun(EndedBySignal):
    """Somebody asked the process to end."""


class Interrupts:
    """While it is entered, signals are noted, and `check` raises. A second signal interrupts at once."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._old: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._old = {number: signal.signal(number, self._handle) for number in heard_signals()}
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._received is not None:
            raise InterruptedRun(number, f"interrupted by {signal.Signals(number).name}, twice")
        self._received = number

    def check(self, *, where: str) -> None:
        """
        :param where: for people: what was finished
        :raises InterruptedRun: if a signal came
        """
        if self._received is not None:
            name = signal.Signals(self._received).name
            raise InterruptedRun(self._received, f"interrupted by {name} after {where}")
