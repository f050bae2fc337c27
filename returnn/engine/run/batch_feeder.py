"""Batches of an epoch on their way to the steps: they are loaded and padded in a thread, ahead of time."""

from __future__ import annotations

import math
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from returnn.config.options import Options
from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.training_position import BatchPosition, TrainingPosition
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.numbers.global_random import GlobalRandomState
from returnn.util.python.user_code_errors import describe_exception, last_place, last_place_of_user
from returnn.util.system.waiting import Waiting

DEFAULT_CAPACITY = Options.tf_data_provider_capacity.default  # batches that are made ahead of time
_END = object()
_POLL_S = 0.2
_STOP_LIMIT_S = 2.0

B = TypeVar("B", covariant=True)


class BatchMaker(Protocol[B]):
    """Loads and pads one batch after the other."""

    dataset: Dataset

    def feed_batch(self, batch: Batch) -> B:
        """:return: the data of the batch; a dataclass with a field `position`, a `BatchPosition`"""


class BatchFeeder(Generic[B]):
    """All batches of an epoch, in order. To be used as a context: it has a thread."""

    def __init__(
        self,
        maker: BatchMaker[B],
        batches: BatchSetGenerator,
        *,
        capacity: int = DEFAULT_CAPACITY,
        wait_limit_s: float = math.inf,
        while_waiting: Callable[[], None] = lambda: None,
        resumed_at: TrainingPosition | None = None,
    ) -> None:
        """
        :param maker: loads them
        :param batches: of the epoch of its data set
        :param capacity: how many batches are made ahead
        :param wait_limit_s: waiting longer for one batch is an error
        :param while_waiting: called several times in a second; can raise
        :param resumed_at: begin behind the batches of this position
        """
        self._resumed_at = resumed_at
        self._wait_limit_s = wait_limit_s
        self._while_waiting = while_waiting
        self.maker = maker
        self.batches = batches
        self._queue: queue.Queue[Any] = queue.Queue(capacity)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="batch feeder", daemon=True)

    def __enter__(self) -> BatchFeeder[B]:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        deadline_s = time.monotonic() + _STOP_LIMIT_S  # a data set that hangs is left behind
        while self._thread.is_alive() and time.monotonic() < deadline_s:
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue

    def _next(self) -> Any:
        waiting = Waiting(self._what_is_waited_for, limit_s=self._wait_limit_s, report=_report)
        while True:
            try:
                return self._queue.get(timeout=_POLL_S)
            except queue.Empty:
                self._while_waiting()
                waiting.check()

    def _what_is_waited_for(self) -> str:
        frame = sys._current_frames().get(self._reading_thread() or 0)
        while frame is not None and frame.f_back is not None and _is_of_python(frame.f_code.co_filename):
            frame = frame.f_back
        where = f", in {frame.f_code.co_filename}, line {frame.f_lineno}" if frame is not None else ""
        return f"a batch of {self.maker.dataset.description}{where}"

    def _reading_thread(self) -> int | None:
        """:return: which thread reads the data set"""
        return self._thread.ident

    def __iter__(self) -> Iterator[B]:
        while True:
            item = self._next()
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def _run(self) -> None:
        try:
            for item in self._make_items():
                self._queue.put(item)
                if self._stop.is_set():
                    break
            self._queue.put(_END)
        except (Exception, SystemExit) as exc:  # noqa: BLE001 (whatever it is, the one who waits has to get it)
            self._queue.put(exc if isinstance(exc, UserError) else self._error_of_dataset(exc))
        except BaseException as exc:  # noqa: BLE001 (the same)
            self._queue.put(exc)

    def _make_items(self) -> Iterator[B]:
        """Called in the thread."""
        if self._resumed_at is not None:
            self._go_to(self._resumed_at)
        while not self._stop.is_set() and self.batches.has_more():
            (batch,) = self.batches.peek_next_n(1)
            made = self.maker.feed_batch(batch)
            self.batches.advance(1)
            yield replace(made, position=position_of(self.batches))  # type: ignore[type-var]

    def _go_to(self, resumed_at: TrainingPosition) -> None:
        """
        Leaves out the batches that the training had before.

        :raises PositionError: if the batches are other ones by now
        """
        random_state = GlobalRandomState.current()
        go_behind(resumed_at.batches, self.batches, self.maker, is_stopped=self._stop.is_set)
        if GlobalRandomState.current() == random_state:  # else the data has brought it to where it was
            resumed_at.random_state.restore()

    def _error_of_dataset(self, exc: BaseException) -> UserError:
        """:return: a message of two lines, about code of a user as a rule"""
        print("".join(traceback.format_exception(exc)), file=log.v5)
        place = last_place_of_user(exc) or last_place(exc)
        error = UserError(f"{self.maker.dataset.description}: {describe_exception(exc, place=place)}")
        error.__cause__ = exc
        return error


def position_of(batches: BatchSetGenerator) -> BatchPosition:
    """:return: behind the batches that were taken"""
    return BatchPosition(batches.get_current_batch_idx(), batches.checksum)


def go_behind(
    wanted: BatchPosition,
    batches: BatchSetGenerator,
    maker: BatchMaker[Any],
    *,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """
    Leaves out batches. They are made nevertheless if the data set says that what comes can depend on what was loaded
    before.

    :param wanted: behind the last one of them
    :param batches: of the same epoch, from the first one on
    :param maker: loads them
    :param is_stopped: asked before each one; then, the rest does not matter
    :raises PositionError: if the batches are other ones by now
    """
    while not is_stopped() and batches.get_current_batch_idx() < wanted.num_batches and batches.has_more():
        if not maker.dataset.supports_random_access:
            maker.feed_batch(*batches.peek_next_n(1))
        batches.advance(1)
    if not is_stopped():
        wanted.check(position_of(batches))


def _is_of_python(filename: str) -> bool:
    return filename.startswith((os.path.dirname(threading.__file__), "<"))


def _report(text: str) -> None:
    print(text, file=log.v2)
