"""Prints sequences of a data set, for a person to look at."""

from __future__ import annotations

from returnn.datasets.core.dataset import Dataset


def print_seqs(dataset: Dataset, max_seqs: int = 10) -> None:
    """
    :param dataset: its first epoch is started
    :param max_seqs: so many from the start
    """
    dataset.init_seq_order(1)
    seq_idx = 0
    while seq_idx < max_seqs and dataset.is_less_than_num_seqs(seq_idx):
        dataset.load_seqs(seq_idx, seq_idx + 1)
        print(f"{dataset.get_tag(seq_idx)}:")
        for key in dataset.get_data_keys():
            data = dataset.get_data(seq_idx, key)
            is_readable = dataset.can_serialize_data(key) and data.ndim <= 1
            print(f"  {key}: {dataset.serialize_data(key, data) if is_readable else data.shape}")
        seq_idx += 1
