"""Steps of several workers, which are done together: a pass ends for all when the first one has no more data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, replace
from typing import Any

import tensorflow as tf

from returnn.engine.run.unfinished import Wishes
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

    def feed(self, wishes: Callable[[], Wishes]) -> dict[Any, Any]:
        """
        :param wishes: of this worker, after the step
        :return: what the step tells the other workers
        """
        return {}

    def took(self, values: dict[str, Any]) -> None:
        """:param values: of a step. What the other workers told is taken out"""

    def agreed(self, wishes: Callable[[], Wishes]) -> Wishes:
        """
        :param wishes: of this worker
        :return: what is done after the step
        """
        return wishes()


class StepsToTheEnd(Steps):
    """The steps of an evaluation by a worker: the others wait for its scores, so it ends later if it was asked to."""

    def agreed(self, wishes: Callable[[], Wishes]) -> Wishes:
        """:return: that it goes on; the `Interrupts` around the evaluation end it"""
        return replace(wishes(), end=False)


class StepsOfAll(Steps):
    """The steps of a worker. Each one tells in it whether it has another batch, and what it wants then."""

    def __init__(self, workers: Workers, built: BuiltNetwork) -> None:
        """
        :param workers: all
        :param built: its graph gets what the workers tell each other
        """
        super().__init__()
        self._workers = workers

        def make() -> tuple[Any, Any]:
            flags = tf1.placeholder(tf.int32, [1 + len(astuple(Wishes()))], name="worker_flags")
            return flags, all_reduce(flags)

        self._flags, total = built.made_once("worker_flags", make)
        self.fetches = {_FETCH: total}
        self._next: FeedBatch | None = None
        self._num_ready = workers.size
        self._agreed = Wishes()

    def batches(self, feeder: Iterable[FeedBatch]) -> Iterator[FeedBatch]:
        """:return: as many as the worker with the fewest has"""
        iterator = iter(feeder)
        batch = self._workers.first_of(iterator)
        if self._workers.sum([batch is not None])[0] < self._workers.size:
            return
        while batch is not None and self._num_ready == self._workers.size:
            self._next = next(iterator, None)
            yield batch
            batch = self._next

    def feed(self, wishes: Callable[[], Wishes]) -> dict[Any, Any]:
        """:return: what the step tells the other workers"""
        return {self._flags: [self._next is not None, *astuple(wishes())]}

    def took(self, values: dict[str, Any]) -> None:
        """:param values: of a step. What the other workers told is taken out"""
        self._num_ready, *numbers = (int(number) for number in values.pop(_FETCH))
        self._agreed = Wishes(*map(bool, numbers))

    def agreed(self, wishes: Callable[[], Wishes]) -> Wishes:
        """:return: what at least one worker wants; the same on all"""
        return self._agreed
