"""What makes a step long is said: before it a sequence far larger than a batch, while it runs the time."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from returnn.log import log
from returnn.tf.engine.feeding.feed import FeedBatch
from returnn.util.numbers.numbers_dict import NumbersDict, NumbersLike
from returnn.util.texts.counted import counted

FIRST_REPORT_S = 30.0
_POLL_S = 0.5
_LARGE = 10  # times `batch_size`


class LongSteps:
    """Of one pass over a data set. To be used as a context: it has a thread, as a step returns at its end alone."""

    def __init__(self, prefix: str, *, batch_size: NumbersLike) -> None:
        """
        :param prefix: for people, e.g. "train epoch 3"
        :param batch_size: of the config, in frames
        """
        self._prefix = prefix
        self._batch_size = NumbersDict(batch_size).max_value()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="long steps", daemon=True)
        self._current: tuple[float, str] | None = None  # when the step began, and what it is
        self._said_large = False

    def __enter__(self) -> LongSteps:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end.set()

    def begin_step(self, batch: FeedBatch, *, step: int) -> None:
        """
        :param batch: of this step
        :param step: its number
        """
        tags = ", ".join(map(repr, batch.seq_tags[:3])) + (", ..." if len(batch.seq_tags) > 3 else "")
        what = f"{counted(len(batch.seq_tags), 'sequence')} ({tags}), {batch.num_frames:,} frames with padding"
        self._current = (time.monotonic(), f"{self._prefix}, step {step}: {what}")
        self._warn_of_large_seq(batch)

    def end_step(self) -> None:
        """The step is over."""
        self._current = None

    def _warn_of_large_seq(self, batch: FeedBatch) -> None:
        if self._said_large or len(batch.seq_tags) != 1 or not self._batch_size:
            return
        if batch.num_frames > _LARGE * self._batch_size:
            self._said_large = True
            log.print_warning(
                f"sequence {batch.seq_tags[0]!r} has {counted(batch.num_frames, 'frame', ',')}, but batch_size is"
                f" {self._batch_size:,}. It is a batch of its own, and may need all memory. 'max_seq_length' leaves"
                " out such sequences, 'chunking' cuts them."
            )

    def _watch(self) -> None:
        said: tuple[float, str] | None = None
        next_report_s = FIRST_REPORT_S
        while not self._end.wait(_POLL_S):
            current = self._current
            if current is None:
                continue
            if current is not said:
                said, next_report_s = current, FIRST_REPORT_S
            seconds = time.monotonic() - current[0]
            if seconds >= next_report_s:
                next_report_s *= 2
                print(f"{current[1]}, runs for {seconds:.0f} s now", file=log.v2)
