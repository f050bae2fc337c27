"""Steps of several workers, which are done together: a pass ends for all when the first one has no more data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from returnn.engine.run.interrupts import InterruptedRun, Interrupts
from returnn.tf.distributed.workers import Workers
from returnn.tf.engine.feeding.feed import FeedBatch
from returnn.tf.engine.session.built_network import BuiltNetwork
from returnn.tf.util.collectives import all_reduce

tf1 = tf.compat.v1
_FETCH = "workers:flags"


class Steps:
    """The steps of a process that is alone."""

    def __init__(self) -> None:
        self.fetches: dict[str, Any] = {}  # with those of a step

    def batches(self, feeder: Iterable[FeedBatch]) -> Iterator[FeedBatch]:
        """:return: those that are to be computed"""
        yield from feeder

    def feed(self, interrupts: Interrupts) -> dict[Any, Any]:
        """:return: what a step tells the other workers"""
        return {}

    def took(self, values: dict[str, Any]) -> None:
        """:param values: of a step. What the other workers told is taken out"""

    def check(self, interrupts: Interrupts, *, where: str) -> None:
        """:raises InterruptedRun: if the pass has to end after this step"""
        interrupts.check(where=where)


class StepsToTheEnd(Steps):
    """The steps of an evaluation by a worker: the others wait for its scores, so it ends later if it was asked to."""

    def check(self, interrupts: Interrupts, *, where: str) -> None:
        """Leaves it to the `Interrupts` around the evaluation."""


class StepsOfAll(Steps):
    """The steps of a worker. Each one tells in it whether it has another batch, and whether it was asked to end."""

    def __init__(self, workers: Workers, built: BuiltNetwork) -> None:
        """
        :param workers: all
        :param built: its graph gets what the workers tell each other
        """
        super().__init__()
        self._workers = workers

        def make() -> tuple[Any, Any]:
            flags = tf1.placeholder(tf.int32, [2], name="worker_flags")
            return flags, all_reduce(flags)

        self._flags, total = built.made_once("worker_flags", make)
        self.fetches = {_FETCH: total}
        self._next: FeedBatch | None = None
        self._num_ready = workers.size
        self._num_asked_to_end = 0

    def batches(self, feeder: Iterable[FeedBatch]) -> Iterator[FeedBatch]:
        """:return: as many as the worker with the fewest has"""
        iterator = iter(feeder)
        batch = next(iterator, None)
        if self._workers.sum([batch is not None])[0] < self._workers.size:
            return
        while batch is not None and self._num_ready == self._workers.size:
            self._next = next(iterator, None)
            yield batch
            batch = self._next

    def feed(self, interrupts: Interrupts) -> dict[Any, Any]:
        """:return: what a step tells the other workers"""
        return {self._flags: [self._next is not None, interrupts.is_pending]}

    def took(self, values: dict[str, Any]) -> None:
        """:param values: of a step. What the other workers told is taken out"""
        self._num_ready, self._num_asked_to_end = (int(number) for number in values.pop(_FETCH))

    def check(self, interrupts: Interrupts, *, where: str) -> None:
        """:raises InterruptedRun: after the same step on all workers, if one of them was asked to end"""
        if self._num_asked_to_end:
            interrupts.check(where=where)
            raise InterruptedRun.by_another_worker(where=where)
