"""What a file with an entry for each sequence lacks, which whoever counts its lines has to know."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping

from returnn.datasets.core.dataset import Dataset
from returnn.util.texts.counted import counted


def missing_seqs_text(dataset: Dataset, num_written: int, left_out: Mapping[str, int]) -> str:
    """
    :param dataset: that the sequences are of
    :param num_written: how many are in the file
    :param left_out: how many were left out because of their length, by the option that does it
    :return: how many of the corpus are missing, and why, as the end of a line about the file; "" if all are there
    """
    by_length = sum(left_out.values())
    total = num_written + by_length
    with contextlib.suppress(NotImplementedError):
        in_corpus = dataset.get_total_num_seqs()
        total = total if math.isinf(in_corpus) else in_corpus
    missing = total - num_written
    if missing <= 0:
        return ""
    reasons = [f"{number} by {name!r}" for name, number in sorted(left_out.items())]
    if missing > by_length:
        reasons.append(f"{missing - by_length} by 'max_total_num_seqs' or options of the data set")
    return f", without {missing} of {counted(total, 'sequence')}: {', '.join(reasons)}"
