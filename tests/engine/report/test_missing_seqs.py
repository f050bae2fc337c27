"""What is said about a file that lacks sequences of the corpus."""

import math

import pytest

from returnn.datasets.core.dataset import Dataset
from returnn.engine.report.missing_seqs import missing_seqs_text


class OfSize(Dataset):
    """A corpus of some size."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def get_total_num_seqs(self, *, fast=False):
        return super().get_total_num_seqs(fast=fast) if self.size is None else self.size


@pytest.mark.parametrize(("size", "written", "left_out", "text"), [
    (5, 5, {}, ""),
    (None, 5, {}, ""),
    (math.inf, 5, {}, ""),
    (5, 4, {"max_seq_length": 1}, ", without 1 of 5 sequences: 1 by 'max_seq_length'"),
    (None, 4, {"max_seq_length": 1}, ", without 1 of 5 sequences: 1 by 'max_seq_length'"),
    (1, 0, {"max_seq_length": 1}, ", without 1 of 1 sequence: 1 by 'max_seq_length'"),
    (9, 4, {"min_seq_length": 1, "max_seq_length": 2}, ", without 5 of 9 sequences: 2 by 'max_seq_length', "
     "1 by 'min_seq_length', 2 by 'max_total_num_seqs' or options of the data set"),
])  # fmt: skip
def test_how_many_are_missing_and_why(size, written, left_out, text):
    assert missing_seqs_text(OfSize(size), written, left_out) == text
