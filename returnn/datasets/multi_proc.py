"""`MultiProcDataset`: reads a data set in several processes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.registry import DatasetDict
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.core.worker import DatasetInfo, DatasetWorker
from returnn.datasets.core.wrapper import pass_order_options
from returnn.util.errors import ConfigError, check_known

_SHARDING_METHODS = ("seq_order", "dedicated")


class MultiProcDataset(CachedDataset2):
    """
    Each of n processes reads each n-th sequence. What comes out is the same as without processes.

    With the sharding method "dedicated", each process reads a part of the data set that it chooses by itself, and the
    sequences of all parts come in turns.
    """

    _checks_data = False  # it is checked in the processes

    def __init__(
        self,
        dataset: DatasetDict,
        num_workers: int,
        buffer_size: int,
        sharding_method: str = "seq_order",
        **kwargs: Any,
    ) -> None:
        """
        :param dataset: options of the data set
        :param num_workers: number of processes
        :param buffer_size: how many sequences each process reads in advance
        :param sharding_method: "seq_order" or "dedicated"
        """
        inner, kwargs = pass_order_options(dataset, kwargs)
        super().__init__(**kwargs)
        check_known("sharding_method", sharding_method, _SHARDING_METHODS, where=self.description)
        if not isinstance(inner, dict):
            raise ConfigError(f"{self.description}: option 'dataset' has to be a dict, as it is made in each process.")
        if num_workers < 1:
            raise ConfigError(f"{self.description}: option 'num_workers' has to be a positive number.")
        self.dataset = inner
        self.num_workers = num_workers
        self.buffer_size = buffer_size
        self._sharding_method = sharding_method
        self._workers: list[DatasetWorker] = []
        self._info: DatasetInfo | None = None
        self._seq_order: SeqOrder | None = None

    def initialize(self) -> None:
        self._start_workers()
        info = self.info
        self.num_inputs, self.num_outputs, self.labels = info.num_inputs, info.num_outputs, info.labels

    def _start_workers(self) -> None:
        if self._workers:
            return
        for i in range(self.num_workers):
            options = {"name": f"{self.name}/{i}", **self.dataset}
            if self._random_seed_offset is not None:
                options.setdefault("random_seed_offset", self._random_seed_offset)
            if self._sharding_method == "dedicated":
                options.update(_num_shards=self.num_workers, _shard_index=i)
            name = f"{self.description}, process {i}"
            self._workers.append(DatasetWorker(options, name=name, buffer_size=self.buffer_size))

    @property
    def info(self) -> DatasetInfo:
        """What the data set says about itself."""
        if self._info is None:
            self._start_workers()
            info = self._workers[0].call("get_info")
            assert isinstance(info, DatasetInfo)
            self._info = info
        return self._info

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        """:raises ConfigError: if the data set in the processes does not know its order (see the class)"""
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._start_workers()
        if self._sharding_method == "dedicated":
            if seq_list is not None or seq_order is not None:
                raise ConfigError(
                    f"{self.description}: with the sharding method 'dedicated', the sequences cannot be chosen here."
                )
            self._seq_order = None
            self._num_seqs = None
            for worker in self._workers:
                worker.start_epoch(epoch)
            return True
        if seq_order is None:
            seq_order = self._workers[0].call("get_order", epoch, seq_list)
        if seq_order is None:
            raise ConfigError(
                f"{self.description}: the data set does not know its order beforehand.\n"
                "  Set the option 'sharding_method' to 'dedicated', if it can be sharded."
            )
        self._seq_order = seq_order
        self._num_seqs = len(seq_order)
        for i, worker in enumerate(self._workers):
            worker.start_epoch(epoch, None, np.asarray(seq_order)[i :: self.num_workers])
        return True

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        # With unequal parts, the shorter ones end first; the first parts are the longer ones.
        seq = self._workers[seq_idx % self.num_workers].next_seq()
        if seq is None:
            return None
        seq.seq_idx = seq_idx
        return seq

    def check_files(self) -> None:
        """Also in the processes, which have read ahead to the end of the epoch."""
        super().check_files()
        for worker in self._workers:
            worker.call("check_files")

    def get_current_seq_order(self) -> SeqOrder:
        if self._seq_order is None:
            raise self._unknown("the order of the sequences")
        return self._seq_order

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        total = self._workers[0].call("get_total_num_seqs") if not fast and self._workers else None
        if total is None:
            raise self._unknown("the total number of sequences")
        return int(total)

    def get_all_tags(self) -> list[str]:
        self._start_workers()
        tags = self._workers[0].call("get_all_tags")
        if tags is None:
            raise self._unknown("the list of all tags")
        return list(tags)

    def finish_epoch(self, *, free_resources: bool = False) -> None:
        super().finish_epoch(free_resources=free_resources)
        if free_resources:
            for worker in self._workers:
                worker.close()
            self._workers = []

    def get_data_keys(self) -> list[str]:
        return self.info.data_keys

    def get_data_dim(self, key: str) -> int:
        return self.info.dims[key]

    def get_data_dtype(self, key: str) -> str:
        return self.info.dtypes[key]

    def get_data_shape(self, key: str) -> list[int | None]:
        return self.info.shapes[key]

    def get_num_axes(self, key: str) -> int:
        return self.info.num_axes[key]

    def is_data_sparse(self, key: str) -> bool:
        return self.info.is_sparse[key]
