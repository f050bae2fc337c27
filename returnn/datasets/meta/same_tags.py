"""
Which sequences of two corpora have the same tags, for tens of millions of them: tags are read in blocks, and only
indices are kept. Most corpora that go together have their sequences in the same order, so it is looked there first.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from returnn.datasets.core.seq_order import IntArray, SeqOrder
from returnn.datasets.util.tag_index import TagArray

_BLOCK = 1 << 22  # sequences whose tags are in memory at once


@runtime_checkable
class CorpusWithTags(Protocol):
    """A data set that can read the tags of its corpus, and find sequences by them."""

    def init_seq_order(self, epoch: int | None = None, *, seq_order: SeqOrder | None = None) -> bool:
        """Begins an epoch."""

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        """:return: number of sequences in the corpus"""

    def tags_of_seqs(self, corpus_seq_indices: IntArray) -> TagArray:
        """:return: as UTF-8"""

    def seqs_with_tags(self, tags: TagArray, *, guess: IntArray | None = None) -> IntArray:
        """
        :param tags: as UTF-8
        :param guess: where they may be
        :return: corpus indices
        :raises DataError: if a tag is not there, or not only once
        """


def seqs_of_same_tags(order: SeqOrder, corpus: CorpusWithTags, other: CorpusWithTags) -> SeqOrder:
    """
    :param order: indices of sequences of the corpus
    :param corpus: knows their tags
    :param other: has sequences with these tags
    :return: their indices in the other one, in the same order
    :raises DataError: if a tag is not in the other one
    """
    indices = np.asarray(order)
    num_seqs = corpus.get_total_num_seqs()
    is_wanted = np.zeros(num_seqs, bool)
    is_wanted[indices] = True
    dtype = np.int32 if max(num_seqs, other.get_total_num_seqs()) < 2**31 else np.int64
    places: IntArray | None = None  # if they are not all the same
    for start in range(0, num_seqs, _BLOCK):
        wanted = start + np.flatnonzero(is_wanted[start : start + _BLOCK])
        if len(wanted):
            found = other.seqs_with_tags(corpus.tags_of_seqs(wanted), guess=wanted)
            if places is None and (found != wanted).any():
                places = np.arange(num_seqs, dtype=dtype)
            if places is not None:
                places[wanted] = found
    return order if places is None else places[indices]
