"""Ctrl-C, SIGTERM and SIGHUP: the step is finished, then the pass ends."""

from __future__ import annotations

import signal
import threading
from types import FrameType, MethodType, TracebackType

from returnn.util.system.end_by_signal import EndedBySignal, heard_signals


class InterruptedRun(EndedBySignal):
    """Somebody asked the process to end."""

    @classmethod
    def by_another_worker(cls, *, where: str) -> InterruptedRun:
        """:return: what all workers end with if one of them was asked to"""
        return cls(signal.SIGTERM, f"ends after {where}, as another worker was asked to")


class InterruptedStep(InterruptedRun):
    """Somebody asked a second time, so the step was not finished."""


class Interrupts:
    """While it is entered, signals are noted, and `check` raises. A second signal interrupts at once."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._old: dict[int, object] = {}
        self._is_told = False  # by an exception

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._old = {number: signal.signal(number, self._handle) for number in heard_signals()}
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        is_handed_on = exc is None and not self._is_told and self._received is not None
        if is_handed_on and isinstance(outer := self._old.get(self._received), MethodType):
            outer(self._received, None)  # of the `Interrupts` around this one

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._received is not None:
            raise InterruptedStep(number, f"interrupted by {signal.Signals(number).name}, twice")
        self._received = number

    @property
    def is_pending(self) -> bool:
        """Whether a signal came."""
        return self._received is not None

    def check(self, *, where: str) -> None:
        """
        :param where: for people: what was finished
        :raises InterruptedRun: if a signal came
        """
        if self._received is not None:
            self._is_told = True
            name = signal.Signals(self._received).name
            raise InterruptedRun(self._received, f"interrupted by {name} after {where}")
