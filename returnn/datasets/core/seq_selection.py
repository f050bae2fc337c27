"""Which sequences of a corpus an epoch can have: the options `seq_list_filter_file` and `unique_seq_tags`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import IntArray, SeqOrder


def find_selected_seqs(
    corpus_tags: Iterable[str],
    *,
    wanted: Collection[str] | None,
    unique: bool,
    wanted_file: str | None = None,
    dataset: str,
) -> IntArray:
    """
    :param corpus_tags: of all sequences, in the order of the corpus
    :param wanted: tags; None: all
    :param unique: whether only the first one of sequences with the same tag is taken
    :param wanted_file: where the wanted tags stand
    :param dataset: its name, for errors
    :return: corpus indices
    :raises DataError: if none of the wanted tags is there
    """
    selected = []
    seen: set[str] = set()
    example = None
    for i, tag in enumerate(corpus_tags):
        example = tag
        if wanted is not None and tag not in wanted:
            continue
        if unique:
            if tag in seen:
                continue
            seen.add(tag)
        selected.append(i)
    if not selected and wanted:
        raise DataError(
            "option 'seq_list_filter_file': none of its tags is in the data",
            dataset=dataset,
            file=wanted_file,
            hint=f"It has tags such as {min(wanted)!r}, the data has {example!r}.",
        )
    return np.array(selected, dtype=np.int64)


def keep_selected(order: SeqOrder, selected: IntArray, *, num_seqs: int) -> SeqOrder:
    """
    :param order: corpus indices
    :param selected: corpus indices of the sequences to keep
    :param num_seqs: in the corpus
    :return: the order, without the others
    """
    is_selected = np.zeros(num_seqs, dtype=bool)
    is_selected[selected] = True
    indices = np.asarray(order, dtype=np.int64)
    return indices[is_selected[indices]]
