"""`DistributeFilesDataset`: for corpora of many files, of which each sub-epoch reads another part."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import Array, DatasetSeq
from returnn.datasets.core.registry import DatasetDict, init_sub_dataset
from returnn.datasets.core.seq_order import IntArray, SeqOrder, is_order_asked_for
from returnn.datasets.core.worker import DatasetWorker
from returnn.datasets.core.wrapper import copy_seq
from returnn.datasets.util.seq_lists import load_python_data
from returnn.util.errors import ConfigError
from returnn.util.files.paths_in_options import find_paths
from returnn.util.texts.counted import counted

Filename = str
FileTree: TypeAlias = Filename | tuple["FileTree", ...] | dict[Any, "FileTree"] | list["FileTree"]


class DistributeFilesDataset(CachedDataset2):
    """
    Distributes the files over `partition_epoch` sub-epochs, by their sizes, and makes a data set of the files of each.

    The data sets of the next sub-epochs are made ahead, each in a process of its own. With `seq_ordering = "random"`,
    the files are distributed anew in each full epoch. Other orders are those of the data sets.
    """

    _checks_data = False

    def __init__(
        self,
        *,
        files: Sequence[FileTree] | str,
        get_sub_epoch_dataset: Callable[[list[FileTree]], DatasetDict],
        preload_next_n_sub_epochs: int = 1,
        buffer_size: int = 1,
        distrib_shard_files: bool = False,
        sharding_fix: None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param files: names of files, or groups of files that belong together (tuples, lists, dicts); or the name of a
            file with such a list
        :param get_sub_epoch_dataset: from some of the files to the options of a data set
        :param preload_next_n_sub_epochs: how many data sets are made ahead; 0: in this process
        :param buffer_size: how many sequences a process reads in advance
        :param distrib_shard_files: in distributed training, gives each shard other files. Otherwise, the data sets are
            sharded.
        :param sharding_fix: only None is possible
        """
        super().__init__(**kwargs)
        if sharding_fix is not None:
            raise ConfigError(
                f"{self.description}: option 'sharding_fix': only None is possible, got {sharding_fix!r}."
            )
        if self.seq_ordering != "random" and is_order_asked_for(self.seq_ordering):
            raise ConfigError(
                f"{self.description}: option 'seq_ordering': {self.seq_ordering!r} is not possible for files.\n"
                "  Possible: default, random. Other orders can be given to the data sets of the sub-epochs."
            )
        self.files = _load_files(files, where=self.description)
        self.get_sub_epoch_dataset = get_sub_epoch_dataset
        self.preload_next_n_sub_epochs = preload_next_n_sub_epochs
        self.buffer_size = buffer_size
        self.distrib_shard_files = distrib_shard_files
        self.sharding_fix = sharding_fix
        self._file_sizes = np.array([_size_of(tree) for tree in self.files], dtype=np.int64)
        self._workers: dict[int, DatasetWorker] = {}  # by epoch
        self._local: Dataset | None = None
        num_parts = self.partition_epoch * (self._num_shards if distrib_shard_files else 1)
        if num_parts > len(self.files):
            raise ConfigError(
                f"{self.description}: {counted(len(self.files), 'file')} (or groups) are too few for "
                f"{counted(num_parts, 'part')}.\n"
                "  See the options 'partition_epoch' and 'distrib_shard_files'."
            )

    def initialize(self) -> None:
        """Takes the data keys and dims from a data set of the first files."""
        dataset = init_sub_dataset(self.get_sub_epoch_dataset(self.get_files_of_epoch(1)), self)
        self.num_inputs = dataset.num_inputs
        self.num_outputs = dict(dataset.num_outputs)
        self.labels = dataset.labels
        self._template = dataset

    def get_files_of_epoch(self, epoch: int) -> list[FileTree]:
        """:return: files of a sub-epoch, and of this shard"""
        order: IntArray = np.arange(len(self.files))
        if self.seq_ordering == "random":
            seed = self.get_random_seed_for_epoch(epoch, self.partition_epoch)
            order = np.random.RandomState(seed % 2**32).permutation(order)
        parts = _split_by_size(order, self._file_sizes[order], self.partition_epoch)
        part = parts[(epoch - 1) % self.partition_epoch]
        if self.distrib_shard_files:
            part = _split_by_size(part, self._file_sizes[part], self._num_shards)[self._shard_index]
        return [self.files[int(i)] for i in part]

    def find_files(self) -> list[str]:
        return list(dict.fromkeys([*super().find_files(), *find_paths(self.files)]))

    def _options_of_epoch(self, epoch: int) -> DatasetDict:
        options = {"name": f"{self.name}/epoch-{epoch}", **self.get_sub_epoch_dataset(self.get_files_of_epoch(epoch))}
        if self.random_seed_offset:
            options.setdefault("random_seed_offset", self.random_seed_offset)
        if self._num_shards > 1 and not self.distrib_shard_files:
            options.update(_num_shards=self._num_shards, _shard_index=self._shard_index)
        return options

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        """:raises ConfigError: with `seq_list` or `seq_order`"""
        if seq_list is not None or seq_order is not None:
            raise ConfigError(f"{self.description}: the files decide about the sequences, they cannot be chosen here.")
        super().init_seq_order(epoch=epoch)
        epoch = epoch or 1
        if not self.preload_next_n_sub_epochs:
            self._local = init_sub_dataset(self._options_of_epoch(epoch), self)
            self._local.init_seq_order(epoch)
            return True
        wanted = range(epoch, epoch + 1 + self.preload_next_n_sub_epochs)
        for other in [other for other in self._workers if other not in wanted]:
            self._workers.pop(other).close()
        for other in wanted:
            if other not in self._workers:
                self._workers[other] = self._start_worker(other)
            elif other == epoch:
                self._workers[other].start_epoch(epoch)
        return True

    def _start_worker(self, epoch: int) -> DatasetWorker:
        name = f"{self.description}, epoch {epoch}"
        worker = DatasetWorker(self._options_of_epoch(epoch), name=name, buffer_size=self.buffer_size)
        worker.start_epoch(epoch)
        return worker

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        if self._local is not None:
            return copy_seq(self._local, seq_idx, seq_idx) if self._local.is_less_than_num_seqs(seq_idx) else None
        return self._workers[self.epoch or 1].next_seq()

    def finish_epoch(self, *, free_resources: bool = False) -> None:
        super().finish_epoch(free_resources=free_resources)
        if free_resources:
            for worker in self._workers.values():
                worker.close()
            self._workers = {}
            self._local = None

    def have_seqs(self) -> bool:
        return bool(self.files)

    def supports_sharding(self) -> bool:
        return self.distrib_shard_files or self._template.supports_sharding()

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        if self.partition_epoch == 1 and not fast:
            return self._template.get_total_num_seqs()
        raise self._unknown("the total number of sequences")

    def get_all_tags(self) -> list[str]:
        if self.partition_epoch == 1:
            return self._template.get_all_tags()
        raise self._unknown("the list of all tags")

    def get_data_keys(self) -> list[str]:
        return self._template.get_data_keys()

    def get_data_dim(self, key: str) -> int:
        return self._template.get_data_dim(key)

    def get_data_dtype(self, key: str) -> str:
        return self._template.get_data_dtype(key)

    def get_data_shape(self, key: str) -> list[int | None]:
        return self._template.get_data_shape(key)

    def get_num_axes(self, key: str) -> int:
        return self._template.get_num_axes(key)

    def is_data_sparse(self, key: str) -> bool:
        return self._template.is_data_sparse(key)

    def can_serialize_data(self, key: str) -> bool:
        return self._template.can_serialize_data(key)

    def serialize_data(self, key: str, data: Array) -> str:
        return self._template.serialize_data(key, data)


def _load_files(files: Sequence[FileTree] | str, *, where: str) -> list[FileTree]:
    trees = list(load_python_data(files, where=where)) if isinstance(files, str) else list(files)
    if not trees:
        raise ConfigError(f"{where}: option 'files' is empty.")
    return trees


def _size_of(tree: FileTree) -> int:
    """:return: in bytes; 1 for what is no file"""
    if isinstance(tree, str):
        return max(os.path.getsize(tree), 1) if os.path.isfile(tree) else 1
    return sum(map(_size_of, tree.values() if isinstance(tree, dict) else tree))


def _split_by_size(order: IntArray, sizes: IntArray, num_parts: int) -> list[IntArray]:
    """
    :param order: what to split
    :param sizes: of each
    :param num_parts: none of which will be empty
    :return: neighbours keep together, and the sums of the sizes are about the same
    """
    middles = np.cumsum(sizes) - sizes / 2
    bounds = [int(np.searchsorted(middles, sizes.sum() * i / num_parts)) for i in range(num_parts + 1)]
    bounds[-1] = len(order)
    for i in range(1, num_parts):
        bounds[i] = min(max(bounds[i], bounds[i - 1] + 1), len(order) - (num_parts - i))
    return [order[start:end] for start, end in itertools.pairwise(bounds)]
