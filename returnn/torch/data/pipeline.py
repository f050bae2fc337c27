"""
Batches that worker processes load, option `torch_dataloader_opts`: `{"num_workers": 2}`.

Each worker has the data set, goes over all batches of the epoch, and loads those that are its own: the first worker the
first, the second worker the second, and so on. So batches come in the same order as with any other number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch.utils.data

from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.engine.frontend.batch_arrays import ArrayBatch, ArrayMaker
from returnn.engine.run.batch_feeder import go_behind, position_of
from returnn.engine.training_position import BatchPosition, PositionError, TrainingPosition
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.python.completion import announce_complete

_OPTIONS = (
    *("num_workers", "prefetch_factor", "multiprocessing_context", "timeout", "pin_memory"),
    *("pin_memory_device", "persistent_workers", "worker_init_fn"),
)


def check_dataloader_opts(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    :param options: `torch_dataloader_opts` of the config
    :return: arguments of `torch.utils.data.DataLoader`
    :raises ConfigError: if there is no such argument, or `num_workers` is no number
    """
    options = dict(options or {})
    for key in options:
        check_known("key", key, _OPTIONS, where="option 'torch_dataloader_opts'")
    num_workers = options.setdefault("num_workers", 0)
    if not isinstance(num_workers, int) or num_workers < 0:
        raise ConfigError(f"option 'torch_dataloader_opts': 'num_workers' is {num_workers!r}, not a number from 0.")
    options.pop("persistent_workers", None)  # the workers of an epoch have its order of the data, and end with it
    return options


class WorkerFeeder:
    """All batches of an epoch, in order, loaded by worker processes. To be used as a context."""

    def __init__(
        self,
        maker: ArrayMaker,
        batches: BatchSetGenerator,
        options: Mapping[str, Any],
        *,
        while_waiting: Callable[[], None],
        resumed_at: TrainingPosition | None = None,
    ) -> None:
        """
        :param maker: loads batches
        :param batches: of the epoch of its data set
        :param options: arguments of `DataLoader`
        :param while_waiting: called before each batch; can raise
        :param resumed_at: begin behind the batches of this position
        """
        wanted = None if resumed_at is None else resumed_at.batches
        self._loader = torch.utils.data.DataLoader(_Batches(maker, batches, wanted), batch_size=None, **options)
        self._resumed_at = resumed_at
        self._while_waiting = while_waiting
        self._iterator: Any = None

    def __enter__(self) -> WorkerFeeder:
        if self._resumed_at is not None:
            self._resumed_at.random_state.restore()
        self._iterator = iter(self._loader)
        return self

    def __exit__(self, *exc: object) -> None:
        self._iterator = None  # ends the workers

    def __iter__(self) -> Iterator[ArrayBatch]:
        while True:
            self._while_waiting()
            try:
                item = next(self._iterator)
            except StopIteration:
                return
            if isinstance(item, _Failure):
                raise (PositionError if item.is_of_position else UserError)(item.text)
            yield item


@dataclass(frozen=True)
class _Failure:
    """An error in a worker. A class of ours may not come through as it is."""

    text: str
    is_of_position: bool


class _Batches(torch.utils.data.IterableDataset):
    """What a worker goes over."""

    def __init__(self, maker: ArrayMaker, batches: BatchSetGenerator, begin: BatchPosition | None) -> None:
        self._maker = maker
        self._batches = batches
        self._begin = begin

    def __iter__(self) -> Iterator[ArrayBatch | _Failure]:
        try:
            if self._begin is not None:
                go_behind(self._begin, self._batches, self._maker)
            yield from self._own_ones()
        except UserError as exc:
            yield _Failure(str(exc), isinstance(exc, PositionError))

    def _own_ones(self) -> Iterator[ArrayBatch]:
        worker = torch.utils.data.get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        index = 0
        while self._batches.has_more():
            (batch,) = self._batches.peek_next_n(1)
            made = self._maker.feed_batch(batch) if index % count == number else None
            self._batches.advance(1)
            if made is not None:
                yield replace(made, position=position_of(self._batches))
            index += 1


announce_complete(__name__)
