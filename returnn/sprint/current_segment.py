"""
`CurrentSegment`: a segment that RASR is asked about while it goes through its corpus.

Newer versions of RASR answer a question at once (`PythonControl.run_control_loop`). Older ones go through a corpus by
themselves: they take the name of the next segment from us, and ask a layer of their network, which is ours, for its
outputs; then they tell this layer the error signal, and us the loss. So a question waits in one thread for what RASR
does in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Condition
from typing import Any

import numpy
import numpy.typing

from returnn.util.errors import UserError

Array = numpy.typing.NDArray[Any]


class CurrentSegment:
    """One segment at a time."""

    def __init__(self) -> None:
        self.cond = Condition()
        self.name: str | None = None
        self.length: int | None = None
        self.posteriors: Array | None = None  # (F, T), as RASR has it
        self.loss: float | None = None
        self.error_signal: Array | None = None  # (F, T)
        self._is_new = False
        self._is_closed = False

    # For the thread with the questions.

    def ask(self, name: str, length: int, posteriors: Array) -> tuple[float, Array]:
        """
        :param name: of the segment
        :param length: in frames
        :param posteriors: (T, F), log probabilities
        :return: loss; (T, F), its gradient of the log probabilities before normalization
        :raises UserError: if RASR ends before it says so
        """
        with self.cond:
            self.name, self.length, self.posteriors = name, length, numpy.asfortranarray(posteriors.T)
            self.loss, self.error_signal, self._is_new = None, None, True
            self.cond.notify_all()
            self.cond.wait_for(lambda: self._is_closed or (self.loss is not None and self.error_signal is not None))
            if self.loss is None or self.error_signal is None:
                raise UserError(f"RASR has left its corpus without an answer for segment {name!r}")
            return self.loss, numpy.ascontiguousarray(self.error_signal.T)

    def close(self) -> None:
        """There are no more questions, or no more answers."""
        with self.cond:
            self._is_closed = True
            self.cond.notify_all()

    # For the thread of RASR.

    def names(self) -> Iterator[str]:
        """:return: the names of the segments that are asked for; each is ready before the next one is"""
        while True:
            with self.cond:
                self.cond.wait_for(lambda: self._is_new or self._is_closed)
                if self._is_closed or self.name is None:
                    return
                self._is_new = False
                name = self.name
            yield name

    def check(self, *, name: str | None = None, length: int | None = None) -> None:
        """:raises UserError: if RASR is at another segment"""
        if name is not None and name != self.name:
            raise UserError(f"RASR is at segment {name!r}, but was asked for {self.name!r}")
        if length is not None and length != self.length:
            raise UserError(f"segment {self.name!r}: RASR has {length} frames, there are {self.length} outputs")

    def set_error_signal(self, error_signal: Array) -> None:
        """
        :param error_signal: (F, T)
        """
        with self.cond:
            self.error_signal = numpy.asarray(error_signal)
            self.cond.notify_all()

    def set_loss(self, loss: float) -> None:
        """
        :param loss: of the segment
        """
        with self.cond:
            self.loss = float(loss)
            self.cond.notify_all()
