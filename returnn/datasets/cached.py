"""
`CachedDataset`: the base class of data sets that read from files, and may keep what they have read.

The sequences in use are kept as in `CachedDataset2`. Beyond that, up to `cache_byte_size` bytes of sequences stay in
memory over the epochs; the longest unused ones go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset_seq import Array, DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import IntArray, SeqLens, SeqOrder, is_same_order
from returnn.util.errors import ConfigError
from returnn.util.numbers.numbers_dict import NumbersDict


class CachedDataset(CachedDataset2):
    """A derived class defines `_read_seq`, `_get_all_seq_lens`, `_get_corpus_tag` and `_find_tags`."""

    _random_access = True

    def __init__(self, cache_byte_size: int = 0, **kwargs: Any) -> None:
        """:param cache_byte_size: keeps that many bytes of data in memory over the epochs; -1: no limit"""
        super().__init__(**kwargs)
        self.cache_byte_size_total_limit = cache_byte_size
        self.nbytes = 0
        self._cache: OrderedDict[int, DatasetSeq] = OrderedDict()
        self._seq_order: SeqOrder = range(0)
        self._seq_lens = SeqLens(self._get_all_seq_lens)

    # What a derived class knows.

    def _get_all_seq_lens(self) -> IntArray:
        """:return: [number of sequences in the corpus], frames of the input"""
        raise self._unknown("the lengths of all sequences")

    def _get_corpus_tag(self, corpus_seq_idx: int) -> str:
        """:return: tag of a sequence"""
        raise self._unknown("the tag of a sequence")

    def _find_tags(self, tags: Sequence[str]) -> IntArray:
        """
        :return: corpus index of each tag
        :raises DataError: if a tag is not there, or not only once
        """
        raise self._unknown("where a tag is")

    def _get_corpus_seq_length(self, corpus_seq_idx: int) -> NumbersDict:
        """:return: frames by data key, read without the data"""
        raise self._unknown("the length of a sequence")

    def _read_seq(self, corpus_seq_idx: int) -> DatasetSeq:
        """:return: a sequence of the corpus"""
        raise self._unknown("how to read a sequence")

    # The order.

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        if seq_list is not None:
            seq_order = self._find_tags(seq_list)
        elif seq_order is not None:
            self._check_order(seq_order)
        if seq_order is None:
            seq_order = self.get_seq_order_for_epoch(epoch, self.get_total_num_seqs(), self._seq_lens)
        changed = not is_same_order(self._seq_order, seq_order)
        self._seq_order = seq_order
        self._num_seqs = len(seq_order)
        self._num_timesteps = None
        return changed

    def _check_order(self, seq_order: SeqOrder) -> None:
        num_seqs = self.get_total_num_seqs()
        indices = np.asarray(seq_order)
        if len(indices) and not 0 <= indices.min() <= indices.max() < num_seqs:
            wrong = indices[(indices < 0) | (indices >= num_seqs)]
            raise ConfigError(f"{self.description}: there is no sequence {wrong[0]}, only {num_seqs} ones.")

    def get_current_seq_order(self) -> SeqOrder:
        return self._seq_order

    def have_corpus_seq_idx(self) -> bool:
        return True

    def get_corpus_seq_idx(self, seq_idx: int) -> int:
        return int(self._seq_order[seq_idx])

    def supports_seq_order_sorting(self) -> bool:
        return True

    def supports_sharding(self) -> bool:
        return True

    # Data.

    def initialize(self) -> None:
        """What is loaded before `init_seq_order` has the order of the corpus."""
        super().initialize()
        num_seqs = self.get_total_num_seqs()
        if not num_seqs:
            raise DataError("there are no sequences", dataset=self.description)
        self._seq_order = range(num_seqs)
        self._num_seqs = num_seqs

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq:
        seq = self._read_cached(self.get_corpus_seq_idx(seq_idx))
        return DatasetSeq(seq_idx, seq.features, seq_tag=seq.seq_tag)

    def _read_cached(self, corpus_seq_idx: int) -> DatasetSeq:
        seq = self._cache.get(corpus_seq_idx)
        if seq is not None:
            self._cache.move_to_end(corpus_seq_idx)
            return seq
        seq = self._read_seq(corpus_seq_idx)
        limit = self.cache_byte_size_total_limit
        if limit:
            self._cache[corpus_seq_idx] = seq
            self.nbytes += _num_bytes(seq)
            while self.nbytes > limit >= 0:
                self._drop(next(iter(self._cache)))
        return seq

    def _drop(self, corpus_seq_idx: int) -> DatasetSeq:
        seq = self._cache.pop(corpus_seq_idx)
        self.nbytes -= _num_bytes(seq)
        return seq

    def get_tag(self, sorted_seq_idx: int) -> str:
        return self._get_corpus_tag(self.get_corpus_seq_idx(sorted_seq_idx))

    def get_seq_length(self, seq_idx: int) -> NumbersDict:
        return self._get_corpus_seq_length(self.get_corpus_seq_idx(seq_idx))

    def get_input_data(self, sorted_seq_idx: int) -> Array:
        return super().get_input_data(sorted_seq_idx)

    def get_targets(self, target: str, sorted_seq_idx: int) -> Array:
        return super().get_targets(target, sorted_seq_idx)

    def is_cached(self, start: int, end: int, blocking: bool = False) -> bool:
        """
        :param start: first sequence
        :param end: exclusive
        :param blocking: whether to load them, if they are not there
        """
        if blocking and not super().is_cached(start, end):
            self.load_seqs(start, end)
        return super().is_cached(start, end)

    def get_seq_length_nd(self, sorted_seq_idx: int) -> Array:
        """:return: frames of each data key, in the order of `get_data_keys`"""
        lengths = self.get_seq_length(sorted_seq_idx)
        return np.array([lengths[key] for key in self.get_data_keys()])

    def get_seq_start(self, sorted_seq_idx: int) -> Array:
        """:return: frames of each data key before this sequence, in the order of the epoch"""
        start = np.zeros(len(self.get_data_keys()), np.int64)
        for i in range(sorted_seq_idx):
            start += self.get_seq_length_nd(i)
        return start

    def get_num_timesteps(self) -> int | NumbersDict:
        if self._num_timesteps is None:
            self._num_timesteps = int(self._seq_lens.all()[np.asarray(self._seq_order)].sum(dtype=np.int64))
        return self._num_timesteps

    def batch_set_generator_cache_whole_epoch(self) -> bool:
        return True

    # The cache, in the order of the epoch.

    @property
    def alloc_intervals(self) -> list[tuple[int, int]]:
        """Which sequences of this epoch are kept in memory: start and end (exclusive) of each interval."""
        intervals: list[tuple[int, int]] = []
        for i, corpus_seq_idx in enumerate(self._seq_order):
            if int(corpus_seq_idx) not in self._cache:
                continue
            if intervals and intervals[-1][1] == i:
                intervals[-1] = (intervals[-1][0], i + 1)
            else:
                intervals.append((i, i + 1))
        return intervals

    def alloc_interval_index(self, ids: int) -> int:
        """:return: which one of `alloc_intervals` a sequence is in; -1: none"""
        return next((i for i, (start, end) in enumerate(self.alloc_intervals) if start <= ids < end), -1)

    def insert_alloc_interval(self, start: int, end: int | None = None) -> int:
        """
        Reads sequences into the cache, as far as its limit allows.

        :param start: first sequence
        :param end: exclusive; by default, only the first
        :return: how many are there now which were not before
        """
        wanted = {self.get_corpus_seq_idx(i) for i in range(start, start + 1 if end is None else end)}
        before = wanted & self._cache.keys()
        for corpus_seq_idx in sorted(wanted):
            self._read_cached(corpus_seq_idx)
        return len((wanted & self._cache.keys()) - before)

    def remove_alloc_interval(self, start: int, end: int | None = None) -> int:
        """
        Removes sequences from the cache.

        :param start: first sequence
        :param end: exclusive; by default, only the first
        :return: how many were there
        """
        wanted = {self.get_corpus_seq_idx(i) for i in range(start, start + 1 if end is None else end)}
        present = wanted & self._cache.keys()
        for corpus_seq_idx in present:
            self._drop(corpus_seq_idx)
        return len(present)

    def delete(self, nframes: int) -> int:
        """
        Removes the longest unused sequences from the cache.

        :param nframes: until that many frames are freed
        :return: how many were
        """
        freed = 0
        while self._cache and freed < nframes:
            freed += int(self._drop(next(iter(self._cache))).num_frames.max_value())
        return freed


def _num_bytes(seq: DatasetSeq) -> int:
    return sum(data.nbytes for data in seq.features.values())
