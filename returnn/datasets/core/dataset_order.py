"""`OrderOfDataset`: which sequences an epoch has, and in which order, as the options of data sets say it."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from returnn.datasets.core.dataset_files import FilesOfDataset
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import (
    GetSeqLen,
    IntArray,
    SeqLens,
    SeqOrder,
    check_seq_ordering,
    order_seqs,
    part_of,
    repeat_order,
)
from returnn.datasets.core.seq_selection import find_selected_seqs, keep_selected
from returnn.datasets.util.seq_lists import load_seq_lens, load_seq_list
from returnn.util.errors import ConfigError

RANDOM_SEED_OFFSET_ENV_VAR = "RETURNN_RANDOM_SEED_OFFSET"


class OrderOfDataset(FilesOfDataset):
    """A base class of `Dataset`."""

    # Orders beside those of all data sets (see `seq_order`).
    _own_seq_orderings: tuple[str, ...] = ()

    def _set_order_options(
        self,
        *,
        seq_ordering: str,
        fixed_random_seed: int | None,
        random_seed_offset: int | None,
        partition_epoch: int | None,
        repeat_epoch: int | None,
        seq_list_filter_file: str | None,
        unique_seq_tags: bool,
        seq_order_seq_lens_file: str | None,
        num_shards: int,
        shard_index: int,
    ) -> None:
        """Part of the constructor; for the options, see `Dataset`."""
        if seq_ordering not in self._own_seq_orderings:
            check_seq_ordering(seq_ordering, where=self.description)
        self.seq_ordering = seq_ordering
        self.fixed_random_seed = fixed_random_seed
        self._random_seed_offset = random_seed_offset
        self.partition_epoch = self._positive("partition_epoch", partition_epoch)
        self.repeat_epoch = self._positive("repeat_epoch", repeat_epoch)
        self._seq_list_filter_file = seq_list_filter_file
        self.seq_tags_filter = (
            set(load_seq_list(seq_list_filter_file, where=self.description)) if seq_list_filter_file else None
        )
        self.unique_seq_tags = unique_seq_tags
        self._seq_order_seq_lens_file = seq_order_seq_lens_file
        self._selected_seqs: IntArray | None = None
        self._num_shards = self._positive("_num_shards", num_shards)
        self._shard_index = shard_index

    def _positive(self, option: str, value: int | None) -> int:
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ConfigError(f"{self.description}: option {option!r} has to be a positive number, got {value!r}.")
        return value or 1

    @property
    def random_seed_offset(self) -> int:
        """Added to the epoch to get the seed of what is random."""
        if self._random_seed_offset is None:
            self._random_seed_offset = int(os.environ.get(RANDOM_SEED_OFFSET_ENV_VAR) or 0)
        return self._random_seed_offset

    def get_random_seed_for_epoch(self, epoch: int, num_epochs_fixed: int = 1) -> int:
        """
        :param epoch: from 1
        :param num_epochs_fixed: that many epochs share a seed
        """
        if self.fixed_random_seed is not None:
            return self.fixed_random_seed
        return (max(epoch, 1) - 1) // num_epochs_fixed + 1 + self.random_seed_offset

    def get_seq_order_for_epoch(
        self, epoch: int | None, num_seqs: int, get_seq_len: GetSeqLen | None = None
    ) -> SeqOrder:
        """
        The order by the options `seq_ordering`, `partition_epoch`, `repeat_epoch`, filters and shards.

        :param epoch: from 1; None: 1
        :param num_seqs: in the corpus
        :param get_seq_len: length of a sequence, by its corpus index; None: not known
        :return: corpus indices
        """
        epoch = epoch or 1
        seed = self.get_random_seed_for_epoch(epoch, self.partition_epoch)
        order = self.order_by_option(num_seqs, get_seq_len, seed=seed)
        order = self._select_seqs(order, num_seqs)
        order = repeat_order(order, self.repeat_epoch)
        order = part_of(order, num_parts=self.partition_epoch, part=(epoch - 1) % self.partition_epoch)
        return part_of(order, num_parts=self._num_shards, part=self._shard_index)

    def order_by_option(self, num_seqs: int, get_seq_len: GetSeqLen | None, *, seed: int) -> SeqOrder:
        """
        The order by the option `seq_ordering` alone.

        :param num_seqs: in the corpus
        :param get_seq_len: length of a sequence, by its corpus index; None: not known
        :param seed: of what is random
        :return: corpus indices
        """
        seq_lens = SeqLens.of(get_seq_len, num_seqs) if get_seq_len else None
        if self._seq_order_seq_lens_file:
            seq_lens = SeqLens(self._seq_lens_from_file)
        return order_seqs(self.seq_ordering, num_seqs, seq_lens=seq_lens, seed=seed, where=self.description)

    def _seq_lens_from_file(self) -> IntArray:
        assert self._seq_order_seq_lens_file
        lens = load_seq_lens(self._seq_order_seq_lens_file, option="seq_order_seq_lens_file", where=self.description)
        try:
            return np.fromiter((lens[tag] for tag in self._iter_corpus_tags()), np.int64)
        except KeyError as exc:
            raise DataError(
                "has no length here", dataset=self.description, seq=exc.args[0], file=self._seq_order_seq_lens_file
            ) from exc

    def _iter_corpus_tags(self) -> Iterable[str]:
        """:return: all tags in the order of the corpus"""
        raise NotImplementedError(f"{self.description}: the tags are not known beforehand")

    def _select_seqs(self, order: SeqOrder, num_seqs: int) -> SeqOrder:
        """Applies `seq_list_filter_file` and `unique_seq_tags`."""
        if not self.unique_seq_tags and self.seq_tags_filter is None:
            return order
        if self._selected_seqs is None:
            self._selected_seqs = find_selected_seqs(
                self._iter_corpus_tags(),
                wanted=self.seq_tags_filter,
                unique=self.unique_seq_tags,
                wanted_file=self._seq_list_filter_file,
                dataset=self.description,
            )
        return keep_selected(order, self._selected_seqs, num_seqs=num_seqs)
