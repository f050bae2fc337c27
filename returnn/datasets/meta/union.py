"""
Data sets whose sequences come from several data sets, each one as a whole: `ConcatDataset`, `CombinedDataset`.

There are two ways to go through them. Either the corpora are put together, and the options given here (order, parts)
decide about all of it. Or each data set keeps its own options, and only here it is decided which one is the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.data_dims import DataDim
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import DatasetLike, init_sub_dataset
from returnn.datasets.core.seq_order import GetSeqLen, IntArray, SeqLens, SeqOrder, is_order_asked_for
from returnn.datasets.meta.mapped_keys import MappedKeysDataset
from returnn.util.errors import ConfigError, check_known
from returnn.util.python.introspect import call_with_known

_KEPT_ORDERS = ("default", "interleave", "random_dataset")


class _UnionDataset(CachedDataset2):
    """
    Holds the data sets, and for each sequence of the epoch, in which data set it is.

    A derived class defines `_features_of`.
    """

    _checks_data = False  # the data sets in it do
    _sampling_sizes: list[int | None]
    _interleave_gumbel_scale: float = 0.0

    def _init_parts(self, parts: Sequence[Dataset]) -> None:
        self._parts = list(parts)
        self._sampling_sizes = [None] * len(self._parts)
        self._schedule: list[tuple[int, int]] = []  # of each sequence: data set, and its index there
        self._done = [0] * len(self._parts)
        self._scores: Array | None = None
        self._sample: list[IntArray] | None = None  # of each data set: positions in the sample that is being ordered

    @property
    def _keeps_orders(self) -> bool:
        """Whether each data set keeps its own options."""
        has_no_lengths = not is_order_asked_for(self.seq_ordering) and not self.supports_seq_order_sorting()
        return (
            (self.seq_ordering in _KEPT_ORDERS or has_no_lengths)
            and self.partition_epoch == self.repeat_epoch == self._num_shards == 1
            and all(size is None for size in self._sampling_sizes)
            and self.seq_tags_filter is None
            and not self.unique_seq_tags
        )

    def _features_of(self, part: int, seq_idx: int) -> dict[str, Array]:
        """:return: data of a loaded sequence of one of the data sets"""
        raise self._unknown("the data")

    @property
    def supports_random_access(self) -> bool:
        return not self._keeps_orders and all(part.supports_random_access for part in self._parts)

    def supports_seq_order_sorting(self) -> bool:
        return all(part.supports_seq_order_sorting() for part in self._parts)

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        starts = self._starts()
        part = int(np.searchsorted(starts[1:], seq_idx, side="right"))
        return self._parts[part].get_estimated_seq_length(seq_idx - int(starts[part]))

    def supports_sharding(self) -> bool:
        return True

    # The order.

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._schedule = []
        self._done = [0] * len(self._parts)
        self._rng = np.random.RandomState(self.get_random_seed_for_epoch(epoch or 1) % 2**32)
        if seq_list is None and seq_order is None and self._keeps_orders:
            for part in self._parts:
                part.init_seq_order(epoch=epoch)
            self._num_seqs = self._known_num_seqs()
            return True
        self._init_schedule(self._order_of_epoch(epoch, seq_list, seq_order), epoch)
        return True

    def _known_num_seqs(self) -> int | None:
        try:
            return sum(part.num_seqs for part in self._parts)
        except NotImplementedError:
            return None

    def _order_of_epoch(
        self, epoch: int | None, seq_list: Sequence[str] | None, seq_order: SeqOrder | None
    ) -> IntArray:
        """:return: indices in the corpora put together"""
        if seq_list is not None:
            index = {tag: i for i, tag in enumerate(self._iter_corpus_tags())}
            missing = [tag for tag in seq_list if tag not in index]
            if missing:
                raise DataError("is missing", dataset=self.description, seq=missing[0])
            seq_order = [index[tag] for tag in seq_list]
        if seq_order is None and any(size is not None for size in self._sampling_sizes):
            seq_order = self._order_of_sample(epoch or 1)
        if seq_order is None:
            lens = SeqLens(self._all_seq_lens) if self.supports_seq_order_sorting() else None
            seq_order = self.get_seq_order_for_epoch(epoch, self.get_total_num_seqs(), lens)
        return np.asarray(seq_order, dtype=np.int64)

    def _order_of_sample(self, epoch: int) -> SeqOrder:
        """The next sequences of each data set: it goes on where the epoch before has ended, and starts again."""
        chosen = []
        sizes = zip(self._starts(), self._sampling_sizes, self._part_sizes(), strict=True)
        for i, (start, size, num) in enumerate(sizes):
            size = num if size is None else size
            positions = np.arange((epoch - 1) * size, epoch * size)
            rounds = {r: self._order_of_round(i, int(r), num) for r in np.unique(positions // num)}
            chosen.append(start + np.array([rounds[p // num][p % num] for p in positions], dtype=np.int64))
        corpus = np.concatenate(chosen)
        lens = SeqLens(lambda: self._all_seq_lens()[corpus]) if self.supports_seq_order_sorting() else None
        self._sample = np.split(np.arange(len(corpus)), np.cumsum([len(part) for part in chosen])[:-1])
        try:
            order = self.get_seq_order_for_epoch(epoch, len(corpus), lens)
        finally:
            self._sample = None
        return corpus[np.asarray(order, dtype=np.int64)]

    def _order_of_round(self, part: int, round_idx: int, num_seqs: int) -> IntArray:
        seed = self.get_random_seed_for_epoch(1) + 7919 * round_idx
        if self.seq_ordering in _KEPT_ORDERS:
            return np.resize(_own_order(self._parts[part], seed), num_seqs)
        return np.random.RandomState(seed % 2**32).permutation(num_seqs)

    def order_by_option(self, num_seqs: int, get_seq_len: GetSeqLen | None, *, seed: int) -> SeqOrder:
        """:return: if the data sets keep their orders, these, in turns; so parts and samples are possible with them"""
        if self.seq_ordering not in _KEPT_ORDERS:
            return super().order_by_option(num_seqs, get_seq_len, seed=seed)
        own = self._sample or self._own_orders(seed)
        sizes = [len(order) for order in own]
        rng = np.random.RandomState(seed % 2**32)
        turns = np.repeat(np.arange(len(sizes)), sizes)
        if self.seq_ordering == "interleave":
            progress = np.concatenate([np.arange(size) / max(size, 1) for size in sizes])
            noise = self._interleave_gumbel_scale * rng.gumbel(size=len(turns))
            turns = turns[np.argsort(progress + noise, kind="stable")]
        elif self.seq_ordering == "random_dataset":
            turns = rng.permutation(turns)
        order = np.empty(len(turns), dtype=np.int64)
        for i, of_part in enumerate(own):
            order[turns == i] = of_part
        return order

    def _own_orders(self, seed: int) -> list[IntArray]:
        """:return: of each data set, its sequences in its own order"""
        return [start + _own_order(part, seed) for start, part in zip(self._starts(), self._parts, strict=True)]

    def _init_schedule(self, order: IntArray, epoch: int | None) -> None:
        part_of_seq = np.searchsorted(self._starts()[1:], order, side="right")
        for i, part in enumerate(self._parts):
            part.init_seq_order(epoch=epoch, seq_order=order[part_of_seq == i] - self._starts()[i])
        for part_idx in part_of_seq.tolist():
            self._take_next(part_idx)
        self._num_seqs = len(order)

    def _take_next(self, part: int) -> None:
        self._schedule.append((part, self._done[part]))
        self._done[part] += 1

    def _part_sizes(self) -> list[int]:
        return [part.get_total_num_seqs() for part in self._parts]

    def _starts(self) -> IntArray:
        return np.cumsum([0, *self._part_sizes()])[: len(self._parts)]

    def _all_seq_lens(self) -> IntArray:
        return np.array(
            [part.get_estimated_seq_length(i) for part in self._parts for i in range(part.get_total_num_seqs())]
        )

    # The next data set, where each one keeps its order.

    def _extend_schedule(self, seq_idx: int) -> bool:
        """:return: whether there is such a sequence"""
        while len(self._schedule) <= seq_idx:
            open_parts = [i for i, part in enumerate(self._parts) if part.is_less_than_num_seqs(self._done[i])]
            if not open_parts:
                return False
            self._take_next(self._choose(open_parts))
        return True

    def _choose(self, open_parts: list[int]) -> int:
        if self.seq_ordering == "interleave":
            return min(open_parts, key=self._progress)
        if self.seq_ordering == "random_dataset":
            sizes = np.array([self._parts[i].estimated_num_seqs or 1 for i in open_parts], dtype=np.float64)
            return open_parts[self._rng.choice(len(open_parts), p=sizes / sizes.sum())]
        return open_parts[0]

    def _progress(self, part: int) -> float:
        done = self._done[part]
        progress = (self._parts[part].get_complete_frac(done - 1) or 0.0) if done else 0.0
        return progress + self._interleave_gumbel_scale * float(self._rng.gumbel())

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        if not self._extend_schedule(seq_idx):
            return None
        part, part_seq_idx = self._schedule[seq_idx]
        self._parts[part].load_seqs(part_seq_idx, part_seq_idx + 1)
        tag = self._parts[part].get_tag(part_seq_idx)
        return DatasetSeq(seq_idx, self._features_of(part, part_seq_idx), seq_tag=tag)

    # The corpus.

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return sum(call_with_known(part.get_total_num_seqs, fast=fast) for part in self._parts)

    def get_all_tags(self) -> list[str]:
        return [tag for part in self._parts for tag in part.get_all_tags()]

    def finish_epoch(self, *, free_resources: bool = False) -> None:
        super().finish_epoch(free_resources=free_resources)
        for part in self._parts:
            part.finish_epoch(free_resources=free_resources)

    def set_file_cache(self, cache: object) -> None:
        for part in self._parts:
            part.set_file_cache(cache)


class ConcatDataset(_UnionDataset):
    """The sequences of several data sets with the same data keys, one data set after the other."""

    def __init__(self, datasets: Sequence[DatasetLike], **kwargs: Any) -> None:
        """:param datasets: options of each data set"""
        super().__init__(**kwargs)
        if not datasets:
            raise ConfigError(f"{self.description}: option 'datasets' is empty.")
        self.datasets = [init_sub_dataset(options, self, key=str(i)) for i, options in enumerate(datasets)]
        self._init_parts(self.datasets)
        first = self.datasets[0]
        self.num_inputs = first.num_inputs
        self.num_outputs = dict(first.num_outputs)
        self.labels = first.labels
        for i, dataset in enumerate(self.datasets):
            if _dims(dataset) != _dims(first):
                raise ConfigError(
                    f"{self.description}: data set {i} ({dataset.description}) has {_dims(dataset)},\n"
                    f"  but the first one has {_dims(first)}."
                )

    @property
    def dataset_seq_idx_offsets(self) -> list[int]:
        """First sequence of each data set."""
        return [int(start) for start in self._starts()]

    def _features_of(self, part: int, seq_idx: int) -> dict[str, Array]:
        return {key: self.datasets[part].get_data(seq_idx, key) for key in self.get_data_keys()}

    def get_data_keys(self) -> list[str]:
        return self.datasets[0].get_data_keys()

    def get_target_list(self) -> list[str]:
        return self.datasets[0].get_target_list()

    def get_data_dtype(self, key: str) -> str:
        return self.datasets[0].get_data_dtype(key)

    def get_data_shape(self, key: str) -> list[int | None]:
        return self.datasets[0].get_data_shape(key)

    def is_data_sparse(self, key: str) -> bool:
        return self.datasets[0].is_data_sparse(key)

    def can_serialize_data(self, key: str) -> bool:
        return self.datasets[0].can_serialize_data(key)

    def serialize_data(self, key: str, data: Array) -> str:
        return self.datasets[0].serialize_data(key, data)


class CombinedDataset(MappedKeysDataset, _UnionDataset):
    """
    Each sequence comes from one of several data sets, with data keys of their own.

    `data_map` says which data key of which data set becomes which one here. What a data set does not have is empty in
    its sequences. The orders of all data sets are possible, over all sequences, and these:

    - "default": one data set after the other, each in its own order
    - "interleave": in turns, such that all end at about the same time, each in its own order
    - "random_dataset": a random one, by their sizes, each in its own order

    With `sampling_sizes`, sizes are these, so "random_dataset" mixes at random with weights. With it, and with
    `partition_epoch` and the like given here, the own order of a data set is its `seq_ordering` alone.
    """

    _own_seq_orderings = ("interleave", "random_dataset")

    def __init__(
        self,
        datasets: Mapping[str, DatasetLike],
        data_map: Mapping[tuple[str, str], str],
        sampling_sizes: int | Mapping[str, int | None] | None = None,
        data_dims: Mapping[str, DataDim] | None = None,
        data_dtypes: Mapping[str, str] | None = None,
        window: int = 1,
        interleave_gumbel_scale: float | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param datasets: name -> options of a data set
        :param data_map: (name of a data set, data key there) -> data key here
        :param sampling_sizes: how many sequences an epoch takes of each data set, one number or by name (None: all).
            The next epoch goes on there.
        :param data_dims: only for a check, as they are known from the data sets
        :param data_dtypes: by data key, to convert the data to; by default, as it is in the data sets
        :param window: puts that many frames of "data" into one, centered
        :param interleave_gumbel_scale: of random noise on the progress, for "interleave"; 0 by default
        """
        super().__init__(window=window, **kwargs)
        for dataset, _ in data_map:
            check_known("data set", dataset, datasets, where=f"{self.description}: option 'data_map'")
        self.dataset_keys = list(datasets)
        self.datasets = {key: init_sub_dataset(options, self, key=key) for key, options in datasets.items()}
        self.data_map = dict(data_map)
        self.data_keys = sorted(set(self.data_map.values()))
        self.target_list = [key for key in self.data_keys if key != DEFAULT_KEY]
        self.dataset_idx2key_map = dict(enumerate(self.dataset_keys))
        self._init_parts(list(self.datasets.values()))
        self.sampling_sizes = sampling_sizes
        self._sampling_sizes = self._parse_sampling_sizes(sampling_sizes)
        self._check_sampling()
        self.interleave_gumbel_scale = interleave_gumbel_scale
        self._interleave_gumbel_scale = interleave_gumbel_scale or 0.0
        self._take_dtypes(data_dtypes)
        self._take_dims(data_dims)

    def _parse_sampling_sizes(self, sizes: int | Mapping[str, int | None] | None) -> list[int | None]:
        if not isinstance(sizes, Mapping):
            return [sizes] * len(self.dataset_keys)
        for key in sizes:
            check_known("data set", key, self.dataset_keys, where=f"{self.description}: option 'sampling_sizes'")
        return [sizes.get(key) for key in self.dataset_keys]

    def _check_sampling(self) -> None:
        options = {"seq_list_filter_file": self._seq_list_filter_file, "unique_seq_tags": self.unique_seq_tags}
        for name, value in options.items():
            if value and any(size is not None for size in self._sampling_sizes):
                raise ConfigError(
                    f"{self.description}: option {name!r} is not possible beside 'sampling_sizes'.\n"
                    "  Take files that have only these sequences."
                )

    def _take_dims(self, data_dims: Mapping[str, DataDim] | None) -> None:
        self._warn_of_other_keys("data_dims", data_dims or {})
        for (name, sub_key), key in self.data_map.items():
            dataset = self.datasets[name]
            where = f"{self.description}: option 'data_map': data set {name!r}"
            check_known("data key", sub_key, dataset.get_data_keys(), where=where)
            dim = (dataset.get_data_dim(sub_key), dataset.get_num_axes(sub_key))
            self._check_dim(key, data_dims or {}, dim)
            expected = self.num_outputs.get(key)
            if expected is not None and expected[0] != dim[0]:
                raise ConfigError(
                    f"{self.description}: data key {key!r} has {dim} in {name!r}, but elsewhere {expected}."
                )
            self.num_outputs[key] = dim
            if sub_key in dataset.labels:
                self.labels.setdefault(key, dataset.labels[sub_key])
        self.num_inputs = self.num_outputs[DEFAULT_KEY][0] if DEFAULT_KEY in self.num_outputs else 0

    def _source(self, key: str) -> tuple[Dataset, str]:
        """:return: the first data set that has a data key, and the key there"""
        name, sub_key = next(source for source, target in self.data_map.items() if target == key)
        return self.datasets[name], sub_key

    def _features_of(self, part: int, seq_idx: int) -> dict[str, Array]:
        name = self.dataset_keys[part]
        features, tag = {key: self._empty(key) for key in self.data_keys}, self._parts[part].get_tag(seq_idx)
        for (dataset, sub_key), key in self.data_map.items():
            if dataset == name:
                features[key] = self._converted(key, self._parts[part].get_data(seq_idx, sub_key), tag)
        return features

    def _empty(self, key: str) -> Array:
        dataset, sub_key = self._source(key)
        shape = [size or 0 for size in dataset.get_data_shape(sub_key)]
        return np.zeros((0, *shape), "U1" if self.get_data_dtype(key) == "string" else self.get_data_dtype(key))

    def get_data_keys(self) -> list[str]:
        return self.data_keys

    def get_target_list(self) -> list[str]:
        return self.target_list


def _dims(dataset: Dataset) -> dict[str, tuple[int, int]]:
    return {key: (dataset.get_data_dim(key), dataset.get_num_axes(key)) for key in dataset.get_data_keys()}


def _own_order(dataset: Dataset, seed: int) -> IntArray:
    """:return: all sequences of a data set, by its option `seq_ordering`"""
    num_seqs = dataset.get_total_num_seqs()
    get_seq_len = dataset.get_estimated_seq_length if dataset.supports_seq_order_sorting() else None
    return np.asarray(dataset.order_by_option(num_seqs, get_seq_len, seed=seed), dtype=np.int64)
