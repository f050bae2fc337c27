"""`WrapperDataset`: the base class of data sets that change what another one gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import Array, DatasetSeq
from returnn.datasets.core.registry import DatasetLike, init_sub_dataset
from returnn.util.python.introspect import call_with_known

_ORDER_OPTIONS = (
    "seq_ordering",
    "fixed_random_seed",
    "partition_epoch",
    "repeat_epoch",
    "seq_list_filter_file",
    "unique_seq_tags",
    "seq_order_seq_lens_file",
    "_num_shards",
    "_shard_index",
)


def pass_order_options(dataset: DatasetLike, kwargs: dict[str, Any]) -> tuple[DatasetLike, dict[str, Any]]:
    """
    :param dataset: options of an inner data set
    :param kwargs: options of the outer one
    :return: both, those about the order moved to the inner one, as far as that has no other ones
    """
    if callable(dataset):
        dataset = dataset()
    if not isinstance(dataset, dict):
        return dataset, kwargs
    order_options = {option: value for option, value in kwargs.items() if option in _ORDER_OPTIONS}
    return {**order_options, **dataset}, {key: value for key, value in kwargs.items() if key not in order_options}


class WrapperDataset(CachedDataset2):
    """Has the data keys of the inner data set. The inner one has checked its data already."""

    _checks_data = False

    # Whether options about the order, given here, go to the inner data set, unless it has other ones.
    _passes_order_options = True

    def __init__(self, dataset: DatasetLike, **kwargs: Any) -> None:
        if self._passes_order_options:
            dataset, kwargs = pass_order_options(dataset, kwargs)
        super().__init__(**kwargs)
        self._inner = init_sub_dataset(dataset, self)
        self.num_inputs = self._inner.num_inputs
        self.num_outputs = dict(self._inner.num_outputs)
        self.labels = self._inner.labels
        self.vocabs = self._inner.vocabs

    def _copy_seq(self, inner_seq_idx: int, seq_idx: int) -> DatasetSeq | None:
        """:return: a sequence of the inner data set under another index; None if there is no such one"""
        if not self._inner.is_less_than_num_seqs(inner_seq_idx):
            return None
        return copy_seq(self._inner, inner_seq_idx, seq_idx)

    def supports_seq_order_sorting(self) -> bool:
        return self._inner.supports_seq_order_sorting()

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        return self._inner.get_estimated_seq_length(seq_idx)

    def supports_sharding(self) -> bool:
        return self._inner.supports_sharding()

    def get_data_keys(self) -> list[str]:
        return self._inner.get_data_keys()

    def get_target_list(self) -> list[str]:
        return self._inner.get_target_list()

    def get_data_dim(self, key: str) -> int:
        return self._inner.get_data_dim(key)

    def get_data_dtype(self, key: str) -> str:
        return self._inner.get_data_dtype(key)

    def get_data_shape(self, key: str) -> list[int | None]:
        return self._inner.get_data_shape(key)

    def get_num_axes(self, key: str) -> int:
        return self._inner.get_num_axes(key)

    def is_data_sparse(self, key: str) -> bool:
        return self._inner.is_data_sparse(key)

    def can_serialize_data(self, key: str) -> bool:
        return self._inner.can_serialize_data(key)

    def serialize_data(self, key: str, data: Array) -> str:
        return self._inner.serialize_data(key, data)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return call_with_known(self._inner.get_total_num_seqs, fast=fast)

    def get_all_tags(self) -> list[str]:
        return self._inner.get_all_tags()

    def _iter_corpus_tags(self) -> Iterable[str]:
        return self._inner._iter_corpus_tags()

    def finish_epoch(self, *, free_resources: bool = False) -> None:
        super().finish_epoch(free_resources=free_resources)
        self._inner.finish_epoch(free_resources=free_resources)

    def set_file_cache(self, cache: object) -> None:
        self._inner.set_file_cache(cache)


def copy_seq(dataset: Dataset, seq_idx: int, new_seq_idx: int) -> DatasetSeq:
    """
    :param dataset: after `init_seq_order`
    :param seq_idx: to load, and to copy from there
    :param new_seq_idx: of the copy
    """
    dataset.load_seqs(seq_idx, seq_idx + 1)
    features = {key: dataset.get_data(seq_idx, key) for key in dataset.get_data_keys()}
    return DatasetSeq(new_seq_idx, features, seq_tag=dataset.get_tag(seq_idx))
