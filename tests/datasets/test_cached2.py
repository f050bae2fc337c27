from __future__ import annotations

import threading

import numpy as np
import pytest

from returnn.datasets.cached2 import CachedDataset2, SingleStreamPipeDataset
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset

from .corpus_checks import seqs_of_epoch


class Countdown(CachedDataset2):
    """As in a config: gives one sequence after the other, and does not know how many."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.num_outputs = {"data": (1, 2)}
        self.calls = []

    def init_seq_order(self, epoch=None, seq_list=None, seq_order=None):
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self.calls = []
        return True

    def _collect_single_seq(self, seq_idx):
        assert self.calls == list(range(seq_idx))
        self.calls.append(seq_idx)
        return DatasetSeq(seq_idx, np.full((5, 1), 9 - seq_idx, "float32")) if seq_idx < 9 else None


def test_each_sequence_is_collected_once_and_in_order():
    dataset = Countdown()
    dataset.init_seq_order(1)
    with pytest.raises(NotImplementedError):
        _ = dataset.num_seqs
    assert [data["data"][0, 0] for _, data in seqs_of_epoch(dataset)] == list(range(9, 0, -1))
    assert dataset.calls == list(range(10))
    assert dataset.num_seqs == 9
    with pytest.raises(IndexError, match="Countdown: epoch 1 has no sequence 9"):
        dataset.get_data(9, "data")


def test_going_back_starts_the_epoch_anew():
    dataset = Countdown()
    dataset.init_seq_order(3)
    dataset.load_seqs(5, 7)
    assert not dataset.is_cached(4, 7)
    dataset.load_seqs(2, 3)
    assert dataset.get_data(2, "data")[0, 0] == 7
    assert dataset.epoch == 3


def test_lengths_can_be_asked_ahead():
    dataset = Countdown()
    dataset.init_seq_order(1)
    assert dataset.get_seq_length(4)["data"] == 5
    assert dataset.is_cached(0, 5)
    dataset.load_seqs(3, 5)
    assert dataset.calls == list(range(5))


class OlderCountdown(Countdown):
    """From when these methods had fewer arguments."""

    def get_total_num_seqs(self):
        return 9

    def get_complete_frac(self, seq_idx):
        return (seq_idx + 1) / 9


def test_methods_with_the_arguments_of_before():
    dataset = OlderCountdown()
    assert "9 total seqs" in dataset.len_info(fast=True)
    assert dataset.have_seqs()
    part = {"class": OlderCountdown}
    concat = {"class": "ConcatDataset", "datasets": [part, part]}
    meta = {"class": "MetaDataset", "datasets": {"a": part}, "data_map": {"data": ("a", "data")}}
    multi = {"class": "MultiEpochDataset", "dataset": part, "multi_epoch": 1}
    post = {"class": "PostprocessingDataset", "dataset": part, "map_seq": lambda seq, **_: seq}
    for options, expected in ((concat, 18), (meta, 9), (post, 9), (multi, 9)):
        dataset = init_dataset(options)
        assert f"{expected} total seqs" in dataset.len_info(fast=True)
        dataset.init_seq_order(1)
        dataset.load_seqs(0, 1)
        if options in (meta, multi):  # which ask the part
            assert dataset.get_complete_frac(0, allow_only_lr_suitable=True) == 1 / 9


def test_sequences_from_another_thread():
    dataset = SingleStreamPipeDataset(dim=2, ndim=2)
    dataset.init_seq_order(1)

    def produce():
        for i in range(5):
            dataset.producer_add_data(np.full((i + 1, 2), i, "float32"), seq_tag=f"tag-{i}")
        dataset.producer_set_finished()

    producer = threading.Thread(target=produce)
    producer.start()
    seqs = seqs_of_epoch(dataset)
    producer.join()
    assert [tag for tag, _ in seqs] == [f"tag-{i}" for i in range(5)]
    assert [len(data["data"]) for _, data in seqs] == [1, 2, 3, 4, 5]
    with pytest.raises(IndexError, match="sequence 0 is gone"):
        dataset.load_seqs(0, 1)
    with pytest.raises(ValueError, match="the order of the sequences is that of the producer"):
        dataset.init_seq_order(1, seq_list=["tag-1"])


@pytest.mark.parametrize("options", [
    {"dim": 5, "ndim": 1, "sparse": True, "dtype": "int32"},
    {"dim": 5, "ndim": 1, "sparse": True, "dtype": "uint8"},
    {"dim": 2, "ndim": 2, "dtype": "float16"},
])  # fmt: skip
def test_kind_of_data_from_another_thread(options):
    dataset = SingleStreamPipeDataset(**options)
    dataset.init_seq_order(1)
    given = np.ones((3, 2)[: options["ndim"]], "int64")
    dataset.producer_add_data(given)
    dataset.producer_set_finished()
    ((_, data),) = seqs_of_epoch(dataset)
    np.testing.assert_array_equal(data["data"], given)
    assert data["data"].dtype == dataset.get_data_dtype("data") == options["dtype"]
    assert dataset.is_data_sparse("data") == options.get("sparse", False)
    assert dataset.get_data_dim("data") == options["dim"]


def test_wrong_label_from_another_thread():
    dataset = SingleStreamPipeDataset(dim=5, ndim=1, sparse=True, dtype="int32")
    dataset.init_seq_order(1)
    dataset.producer_add_data(np.array([1, 5]))
    with pytest.raises(DataError, match="label 5 at frame 1 is out of range"):
        dataset.load_seqs(0, 1)
