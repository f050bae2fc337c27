"""Ctrl-C and SIGTERM: the step is finished, then the pass ends."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class InterruptedRun(KeyboardInterrupt):
    """Somebody asked the process to end."""


class Interrupts:
    """While it is entered, signals are noted, and `check` raises. A second signal interrupts at once."""

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self._received: int | None = None
        self._old: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._old = {number: signal.signal(number, self._handle) for number in self._SIGNALS}
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._received is not None:
            raise InterruptedRun(f"interrupted by {signal.Signals(number).name}, twice")
        self._received = number

    def check(self, *, where: str) -> None:
        """
        :param where: for people: what was finished
        :raises InterruptedRun: if a signal came
        """
        if self._received is not None:
            raise InterruptedRun(f"interrupted by {signal.Signals(self._received).name} after {where}")
