"""`CorpusDataset`: the base class of data sets that read a corpus of known size, any sequence of it at any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset_seq import Array, DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen, IntArray, SeqLens, SeqOrder, is_by_length
from returnn.util.errors import ConfigError, UserError, nearest_hint


class CorpusDataset(CachedDataset2):
    """
    A derived class defines `get_total_num_seqs`, `_corpus_tag` and `_read_corpus_seq`, and what it has of the rest.

    What is random in the data is seeded in `_seed_random`, for each sequence anew, so that an epoch can be entered at
    any sequence.
    """

    _random_access = True
    _seq_order: SeqOrder | None = None
    _frames_until: IntArray | None = None

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        raise self._unknown("the tag of a sequence")

    def _read_corpus_seq(self, corpus_seq_idx: int) -> Mapping[str, Array]:
        """
        :return: data by key
        :raises UserError: what is wrong with it; the data set and the tag of the sequence are added
        """
        raise self._unknown("how to get a sequence")

    def _seed_random(self, seed: int) -> None:
        """Called before each sequence, with a seed of its own."""

    def _seq_len_func(self) -> GetSeqLen | None:
        """:return: function from corpus index to (approximate) length, if that is known without reading the data"""
        return None

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        if seq_list is not None:
            seq_order = self._corpus_indices_of_tags(seq_list)
        if seq_order is None:
            seq_order = self._order_of_epoch(self.epoch or 1)
        self._seq_order = seq_order
        self._num_seqs = len(seq_order)
        self._frames_until = None
        return True

    def get_complete_frac(
        self, sorted_seq_idx: int, *, allow_only_lr_suitable: bool = False, **kwargs: Any
    ) -> float | None:
        if allow_only_lr_suitable or not is_by_length(self.seq_ordering) or self._seq_order is None:
            return super().get_complete_frac(sorted_seq_idx, allow_only_lr_suitable=allow_only_lr_suitable)
        if self._frames_until is None:
            self._frames_until = self._count_frames(self._seq_order)
        total = self._frames_until[-1] if len(self._frames_until) else 0
        if not total:
            return super().get_complete_frac(sorted_seq_idx)
        return float(self._frames_until[min(sorted_seq_idx, len(self._frames_until) - 1)] / total)

    def _count_frames(self, order: SeqOrder) -> IntArray:
        """:return: for each sequence of the epoch, how many frames (about) are done with it; empty if not known"""
        get_seq_len = self._seq_len_func()
        if get_seq_len is None:
            return numpy.zeros(0, "int64")
        lens = SeqLens.of(get_seq_len, self.get_total_num_seqs()).all()
        return numpy.cumsum(lens[numpy.asarray(order)], dtype="int64")

    def _order_of_epoch(self, epoch: int) -> SeqOrder:
        return self.get_seq_order_for_epoch(epoch, self.get_total_num_seqs(), self._seq_len_func())

    def _corpus_indices_of_tags(self, tags: Sequence[str]) -> list[int]:
        index = {tag: i for i, tag in enumerate(self.get_all_tags())}
        unknown = next((tag for tag in tags if tag not in index), None)
        if unknown is not None:
            hint = (
                nearest_hint(unknown, list(index)[:1000]) if len(index) <= 20 else f"Others: {next(iter(index))!r}, ..."
            )
            raise ConfigError(f"{self.description}: there is no sequence {unknown!r}.\n  {hint}")
        return [index[tag] for tag in tags]

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        if self._seq_order is None:
            raise self._not_started()
        return self._make_seq(seq_idx, self.get_corpus_seq_idx(seq_idx))

    def _make_seq(self, seq_idx: int, corpus_seq_idx: int) -> DatasetSeq:
        tag = self._corpus_tag(corpus_seq_idx)
        self._seed_random((self.get_random_seed_for_epoch(self.epoch or 1) * 1_000_003 + seq_idx) % 2**32)
        try:
            data = self._read_corpus_seq(corpus_seq_idx)
        except DataError:
            raise
        except UserError as exc:
            problem = str(exc).removesuffix(".")
            raise DataError(problem, dataset=self.description, seq=tag, file=self._corpus_file(corpus_seq_idx)) from exc
        return DatasetSeq(seq_idx, data, seq_tag=tag)

    def _corpus_file(self, corpus_seq_idx: int) -> str | None:
        """:return: for errors, where a sequence comes from"""
        return None

    def _describe_source(self, seq: DatasetSeq) -> str | None:
        return self._corpus_file(self.get_corpus_seq_idx(seq.seq_idx)) if self._seq_order is not None else None

    def _not_started(self) -> RuntimeError:
        return RuntimeError(f"{self.description}: init_seq_order has to be called first")

    def get_all_tags(self) -> list[str]:
        return [self._corpus_tag(i) for i in range(self.get_total_num_seqs())]

    def get_tag(self, seq_idx: int) -> str:
        return self._corpus_tag(self.get_corpus_seq_idx(seq_idx))

    def have_corpus_seq_idx(self) -> bool:
        return True

    def get_corpus_seq_idx(self, seq_idx: int) -> int:
        if self._seq_order is None:
            raise self._not_started()
        return int(self._seq_order[seq_idx])

    def get_current_seq_order(self) -> SeqOrder:
        if self._seq_order is None:
            raise self._not_started()
        return self._seq_order

    def have_get_corpus_seq(self) -> bool:
        return True

    def get_corpus_seq(self, corpus_seq_idx: int) -> DatasetSeq:
        return self._make_seq(corpus_seq_idx, corpus_seq_idx)

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        get_seq_len = self._seq_len_func()
        return super().get_estimated_seq_length(seq_idx) if get_seq_len is None else get_seq_len(seq_idx)

    def supports_seq_order_sorting(self) -> bool:
        return self._seq_len_func() is not None

    def supports_sharding(self) -> bool:
        return True
