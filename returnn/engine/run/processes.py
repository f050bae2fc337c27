"""What a training asks of the others, if several processes train a model together."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import Any, TypeVar

import numpy

from returnn.engine.run.interrupts import InterruptedRun, Interrupts
from returnn.engine.run.scores import Scores
from returnn.engine.run.unfinished import Wishes
from returnn.engine.run.worker_options import WorkerOptions
from returnn.engine.training_position import PositionError
from returnn.util.errors import UserError
from returnn.util.system.process_group import ProcessPlace

T = TypeVar("T")


class Processes(abc.ABC):
    """This process among all. Each method is called by all processes, in the same order."""

    place: ProcessPlace
    options: WorkerOptions
    option_name: str  # of the config

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return self.place.rank

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.place.size

    @property
    def is_first(self) -> bool:
        """Whether this one writes the files."""
        return self.place.is_first

    @property
    def shards_data(self) -> bool:
        """Whether each process has a part of the data, so that scores are to be summed up."""
        return self.options.data == "shard"

    @abc.abstractmethod
    def sum(self, values: Sequence[float]) -> numpy.ndarray:
        """
        :param values: of this process; all processes call it, with the same number of values
        :return: sums over all processes
        :raises UserError: if a process does not answer
        """

    def of_all(self, value: float) -> numpy.ndarray:
        """
        :param value: of this process
        :return: those of all processes, by rank
        """
        return self.sum([value if rank == self.rank else 0.0 for rank in range(self.size)])

    def wait_for_all(self) -> None:
        """Until all processes have called it."""
        self.sum([1.0])

    def what_one_wants(self, wishes: Wishes) -> Wishes:
        """
        :param wishes: of this process
        :return: what at least one process wants
        """
        return Wishes(*map(bool, self.sum(astuple(wishes))))

    def check_interrupts(self, interrupts: Interrupts, *, where: str) -> None:
        """
        :param interrupts: of this process
        :param where: for people: what was finished
        :raises InterruptedRun: in all processes, if one of them was asked to end
        """
        if self.sum([interrupts.is_pending])[0]:
            interrupts.check(where=where)
            raise InterruptedRun.by_another_worker(where=where)

    def check_agreement(self, what: str, value: float) -> None:
        """
        :param what: name of the value
        :param value: has to be the same in all processes
        :raises UserError: if it is not
        """
        of_all = self.of_all(value)
        if (of_all != value).any():
            values = ", ".join(f"{value:g}" for value in of_all)
            raise UserError(
                f"{self.option_name}: {what} is {values} on the workers 0 to {self.size - 1}.\n"
                "  All of them have to see the same folder of models, and the same config."
            )

    def is_time_to_sync(self, num_steps: int, last_s: float) -> bool:
        """
        :param num_steps: so far
        :param last_s: when it was done last, as `time.monotonic` has it
        :return: whether all workers take the mean of their parameters now; the same answer on all
        """
        if num_steps % self.options.param_sync_step:
            return False
        limit_s = self.options.param_sync_time_diff
        return limit_s is None or bool(self.sum([time.monotonic() - last_s >= limit_s])[0])

    def while_all_have(self, items: Iterable[T]) -> Iterator[T]:
        """:return: as many as the process with the fewest has"""
        iterator = iter(items)
        nothing: Any = object()
        item = self.first_of(iterator, nothing)
        while self.sum([item is not nothing])[0] == self.size:
            yield item
            item = next(iterator, nothing)

    def first_of(self, items: Iterator[T], nothing: Any = None) -> T | Any:
        """
        :param items: of this process; they may go on inside of an epoch
        :param nothing: what is returned if there are none
        :return: the first one
        :raises PositionError: in all processes, if one of them cannot go on there
        """
        error, item = None, nothing
        try:
            item = next(items, nothing)
        except PositionError as exc:
            error = exc
        of_all = self.of_all(error is not None)
        if error is not None:
            raise error
        if of_all.any():
            raise PositionError(f"Worker {int(of_all.argmax())} has other data than before.")
        return item

    def all_names(self, names: Iterable[str]) -> list[str]:
        """
        :param names: of this process
        :return: those of all processes, each once, sorted
        """
        own = numpy.frombuffer("\n".join(names).encode("utf8"), "uint8")
        sizes = [int(size) for size in self.sum([len(own) * (rank == self.rank) for rank in range(self.size)])]
        texts = numpy.zeros([self.size, max(*sizes, 1)])
        texts[self.rank, : len(own)] = own
        of_all = self.sum(texts.flatten()).astype("uint8").reshape(texts.shape)
        found = [bytes(text[:size]).decode("utf8") for text, size in zip(of_all, sizes, strict=True)]
        return sorted({name for text in found if text for name in text.split("\n")})

    def sum_scores(self, scores: Scores) -> None:
        """
        Makes the scores of a part of the data those of all parts.

        :param scores: of this process, which may have had no data
        """
        keys = self.all_names(scores.sums)
        names = sorted({key.partition(":")[2] for key in keys})
        own = [*(scores.sums.get(key, 0.0) for key in keys), *(scores.num_frames.get(name, 0.0) for name in names)]
        totals = list(map(float, self.sum(own)))
        scores.sums.update(zip(keys, totals[: len(keys)], strict=True))
        scores.num_frames.update(zip(names, totals[len(keys) :], strict=True))
