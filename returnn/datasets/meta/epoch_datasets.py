"""Data sets that have another data set in each epoch, or several of its epochs in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import Array, DatasetSeq
from returnn.datasets.core.registry import DatasetDict, DatasetLike, init_sub_dataset
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.core.wrapper import WrapperDataset, copy_seq
from returnn.util.errors import ConfigError
from returnn.util.numbers.numbers_dict import NumbersDict
from returnn.util.python.introspect import call_with_known


class VariableDataset(Dataset):
    """In each epoch, all is as in the data set that a function gives for it."""

    _checks_data = False

    def __init__(
        self,
        get_dataset: Callable[..., DatasetDict],
        dataset_lru_cache_size: int = 1,
        always_same_tags: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param get_dataset: called with `epoch=...`, and `self=...` (this data set) if it takes that; returns the
            options of a data set. The data keys are always the same.
        :param dataset_lru_cache_size: that many data sets are kept, in case the same options come again
        :param always_same_tags: whether all of them have the same sequences in the same order
        """
        super().__init__(**kwargs)
        self._get_dataset = get_dataset
        self._cache_size = max(dataset_lru_cache_size, 1)
        self._always_same_tags = always_same_tags
        self._datasets: list[tuple[DatasetDict, Dataset]] = []  # with their options, the last used one at the end
        self._dataset = self._dataset_of_epoch(1)
        self.num_inputs = self._dataset.num_inputs
        self.num_outputs = self._dataset.num_outputs
        self.labels = self._dataset.labels

    def _dataset_of_epoch(self, epoch: int) -> Dataset:
        options = call_with_known(self._get_dataset, epoch=epoch, self=self)
        place = next((i for i, (known, _) in enumerate(self._datasets) if _are_equal(known, options)), None)
        dataset = init_sub_dataset(options, self) if place is None else self._datasets.pop(place)[1]
        self._datasets.append((options, dataset))
        if len(self._datasets) > self._cache_size:
            _, oldest = self._datasets.pop(0)
            oldest.finish_epoch(free_resources=True)
        return dataset

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        keys = self._dataset.get_data_keys()
        self._dataset = self._dataset_of_epoch(epoch or 1)
        if self._dataset.get_data_keys() != keys:
            raise ConfigError(
                f"{self.description}: the data set of epoch {epoch} has the keys {self._dataset.get_data_keys()},\n"
                f"  those before had {keys}."
            )
        self._dataset.init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        return True

    @property
    def supports_random_access(self) -> bool:
        return self._dataset.supports_random_access

    def supports_seq_order_sorting(self) -> bool:
        return self._dataset.supports_seq_order_sorting()

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        return self._dataset.get_estimated_seq_length(seq_idx)

    def supports_sharding(self) -> bool:
        return self._dataset.supports_sharding()

    def get_current_seq_order(self) -> SeqOrder:
        return self._dataset.get_current_seq_order()

    def finish_epoch(self, *, free_resources: bool = False) -> None:
        self._dataset.finish_epoch(free_resources=free_resources)
        if free_resources:
            for _, dataset in self._datasets:
                dataset.finish_epoch(free_resources=True)

    @property
    def num_seqs(self) -> int:
        return self._dataset.num_seqs

    def is_less_than_num_seqs(self, n: int) -> bool:
        return self._dataset.is_less_than_num_seqs(n)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        if not self._always_same_tags:
            raise self._unknown("the total number of sequences")
        return call_with_known(self._dataset.get_total_num_seqs, fast=fast)

    def get_all_tags(self) -> list[str]:
        if not self._always_same_tags:
            raise self._unknown("the list of all tags (see the option 'always_same_tags')")
        return self._dataset.get_all_tags()

    def get_tag(self, sorted_seq_idx: int) -> str:
        return self._dataset.get_tag(sorted_seq_idx)

    def get_num_timesteps(self) -> int | NumbersDict:
        return self._dataset.get_num_timesteps()

    def get_complete_frac(self, sorted_seq_idx: int, **kwargs: Any) -> float | None:
        return call_with_known(self._dataset.get_complete_frac, sorted_seq_idx, **kwargs)

    def get_seq_length(self, sorted_seq_idx: int) -> NumbersDict:
        return self._dataset.get_seq_length(sorted_seq_idx)

    def load_seqs(self, start: int, end: int) -> None:
        self._dataset.load_seqs(start, end)

    def is_cached(self, start: int, end: int) -> bool:
        return self._dataset.is_cached(start, end)

    def get_data(self, seq_idx: int, key: str) -> Array:
        return self._dataset.get_data(seq_idx, key)

    def get_input_data(self, seq_idx: int) -> Array:
        return self._dataset.get_input_data(seq_idx)

    def get_targets(self, target: str, seq_idx: int) -> Array:
        return self._dataset.get_targets(target, seq_idx)

    def get_data_keys(self) -> list[str]:
        return self._dataset.get_data_keys()

    def get_target_list(self) -> list[str]:
        return self._dataset.get_target_list()

    def get_data_dim(self, key: str) -> int:
        return self._dataset.get_data_dim(key)

    def get_data_dtype(self, key: str) -> str:
        return self._dataset.get_data_dtype(key)

    def get_data_shape(self, data_key: str) -> list[int | None]:
        return self._dataset.get_data_shape(data_key)

    def get_num_axes(self, key: str) -> int:
        return self._dataset.get_num_axes(key)

    def is_data_sparse(self, key: str) -> bool:
        return self._dataset.is_data_sparse(key)

    def can_serialize_data(self, key: str) -> bool:
        return self._dataset.can_serialize_data(key)

    def serialize_data(self, key: str, data: Array) -> str:
        return self._dataset.serialize_data(key, data)


class MultiEpochDataset(WrapperDataset):
    """One epoch here is several epochs of another data set, one after the other."""

    def __init__(self, dataset: DatasetLike, multi_epoch: int, **kwargs: Any) -> None:
        """
        :param dataset: options of the other data set
        :param multi_epoch: how many of its epochs
        """
        super().__init__(dataset, **kwargs)
        self._multi_epoch = multi_epoch
        self._inner_epoch = 0  # how many of them are over
        self._inner_start = 0  # first sequence of the current one, here

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        """:raises ValueError: with `seq_list` or `seq_order`: they would be for several epochs"""
        if seq_list is not None or seq_order is not None:
            raise ValueError(f"{self.description}: the order is that of the data set in it")
        super().init_seq_order(epoch=epoch)
        self._inner_epoch = 0
        self._inner_start = 0
        self._init_inner_epoch()
        return True

    def _init_inner_epoch(self) -> None:
        self._inner.init_seq_order(epoch=((self.epoch or 1) - 1) * self._multi_epoch + self._inner_epoch + 1)

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        while not self._inner.is_less_than_num_seqs(seq_idx - self._inner_start):
            if self._inner_epoch + 1 == self._multi_epoch:
                return None
            self._inner_start = seq_idx
            self._inner_epoch += 1
            self._init_inner_epoch()
        return copy_seq(self._inner, seq_idx - self._inner_start, seq_idx)

    def get_data_shape(self, data_key: str) -> list[int | None]:
        return super().get_data_shape(data_key)

    def get_complete_frac(self, sorted_seq_idx: int, **kwargs: Any) -> float | None:
        inner_seq_idx = max(sorted_seq_idx - self._inner_start, 0)
        frac = call_with_known(self._inner.get_complete_frac, inner_seq_idx, **kwargs)
        return None if frac is None else (self._inner_epoch + frac) / self._multi_epoch


def _are_equal(first: Any, second: Any) -> bool:
    """:return: whether options are the same, also with arrays in them"""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_are_equal(value, second[key]) for key, value in first.items())
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_are_equal, first, second))
    return bool(first == second)
