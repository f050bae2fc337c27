"""`WaitingInputs`: what several threads want to know of a model, which one thread asks for many at once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from returnn.serve.http_service import HttpError

_POLL_S = 0.2
_ENDS = "the server ends."


class WaitingInput:
    """One input, and what the model makes of it."""

    def __init__(self, value: Any, deadline_s: float) -> None:
        """
        :param value: the input
        :param deadline_s: as of `time.monotonic`: when nobody waits any more
        """
        self.value = value
        self.deadline_s = deadline_s
        self._is_done = threading.Event()
        self._output: Any = None
        self._error: Exception | None = None

    def set_output(self, output: Any) -> None:
        """The one who waits gets it."""
        self._output = output
        self._is_done.set()

    def set_error(self, error: Exception) -> None:
        """The one who waits gets it raised."""
        self._error = error
        self._is_done.set()

    def wait(self) -> Any:
        """
        :return: the output
        :raises HttpError: if it takes too long
        """
        start_s = time.monotonic()
        if not self._is_done.wait(max(self.deadline_s - start_s, 0)):
            raise HttpError(504, f"no answer within {time.monotonic() - start_s:.3g} seconds.")
        if self._error is not None:
            raise self._error
        return self._output


class WaitingInputs:
    """
    All that wait. Threads call `output_of`, the thread of the model calls `run`.

    Inputs that come while a batch is computed are the next batch. The first one waits a moment for others.
    """

    def __init__(self, compute: Callable[[Sequence[Any]], Sequence[Any]], *, max_inputs: int, wait_s: float) -> None:
        """
        :param compute: outputs of inputs, in their order
        :param max_inputs: of one batch
        :param wait_s: how long the first one waits for others
        """
        self._compute = compute
        self._max_inputs = max_inputs
        self._wait_s = wait_s
        self._queue: queue.Queue[WaitingInput] = queue.Queue()
        self._lock = threading.Lock()
        self._is_closed = False

    def output_of(self, value: Any, *, deadline_s: float) -> Any:
        """
        :param value: the input
        :param deadline_s: as of `time.monotonic`
        :return: the output
        :raises HttpError: if it takes too long, or if there is nobody to compute it any more
        """
        waiting = WaitingInput(value, deadline_s)
        with self._lock:
            if self._is_closed:
                raise HttpError(503, _ENDS)
            self._queue.put(waiting)
        return waiting.wait()

    def run(self, check: Callable[[], None]) -> None:
        """
        Computes until `check` raises.

        :param check: called several times in a second, and between batches
        """
        batch: list[WaitingInput] = []
        try:
            while True:
                check()
                batch = self._next_batch()
                if batch:
                    self._compute_batch(batch)
                batch = []
        finally:
            self._fail(batch)
            self.close()

    def close(self) -> None:
        """All that still wait get an error."""
        with self._lock:
            self._is_closed = True
            left = []
            while not self._queue.empty():
                left.append(self._queue.get())
        self._fail(left)

    def _fail(self, inputs: Sequence[WaitingInput]) -> None:
        for waiting in inputs:
            waiting.set_error(HttpError(503, _ENDS))

    def _next_batch(self) -> list[WaitingInput]:
        """:return: those that wait, without those that nobody waits for any more"""
        try:
            batch = [self._queue.get(timeout=_POLL_S)]
        except queue.Empty:
            return []
        end_s = time.monotonic() + self._wait_s
        while len(batch) < self._max_inputs:
            try:
                batch.append(self._queue.get(timeout=max(end_s - time.monotonic(), 0)))
            except queue.Empty:
                break
        return [waiting for waiting in batch if waiting.deadline_s > time.monotonic()]

    def _compute_batch(self, batch: Sequence[WaitingInput]) -> None:
        """If it fails, each one is computed alone: one that the model cannot take is no harm to others."""
        try:
            outputs = self._compute([waiting.value for waiting in batch])
        except Exception as exc:  # noqa: BLE001 (the one who asks gets it, whatever it is)
            if len(batch) == 1:
                batch[0].set_error(exc)
                return
            for waiting in batch:
                self._compute_batch([waiting])
            return
        for waiting, output in zip(batch, outputs, strict=True):
            waiting.set_output(output)
