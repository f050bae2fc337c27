"""How much of an epoch is done, by which the remaining time is told."""

import numpy
import pytest

from returnn.datasets.core.registry import init_dataset

LENGTHS = [1, 2, 3, 4, 90]


def dataset(**options):
    data = [{"data": numpy.zeros((length, 1), "float32")} for length in LENGTHS]
    made = init_dataset({"class": "StaticDataset", "data": data, "output_dim": {"data": (1, 2)}, **options})
    made.init_seq_order(epoch=1)
    return made


def fracs(made):
    return [made.get_complete_frac(i) for i in range(made.num_seqs)]


def test_frames_count_where_neighbours_have_similar_lengths():
    assert fracs(dataset(seq_ordering="sorted")) == pytest.approx([0.01, 0.03, 0.06, 0.1, 1.0])
    assert fracs(dataset(seq_ordering="sorted_reverse")) == pytest.approx([0.9, 0.94, 0.97, 0.99, 1.0])
    assert fracs(dataset(seq_ordering="laplace:.5"))[-1] == 1.0


def test_sequences_count_otherwise():
    for ordering in ("default", "random"):
        assert fracs(dataset(seq_ordering=ordering)) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_sequences_count_for_learning_rates():
    made = dataset(seq_ordering="sorted")
    assert made.get_complete_frac(0, allow_only_lr_suitable=True) == pytest.approx(0.2)


def test_each_epoch_has_its_own_frames():
    made = dataset(seq_ordering="sorted", partition_epoch=2)
    for epoch, expected in ((1, [1 / 6, 3 / 6, 1.0]), (2, [4 / 94, 1.0])):
        made.init_seq_order(epoch=epoch)
        assert fracs(made) == pytest.approx(expected)


def test_remaining_time_of_sequences_of_uneven_lengths():
    """Steps take as long as their sequence. The rule of `Progress`: by the steps behind the first one."""
    lengths = list(range(1, 101))
    data = [{"data": numpy.zeros((length, 1), "float32")} for length in lengths]
    made = init_dataset(
        {"class": "StaticDataset", "data": data, "output_dim": {"data": (1, 2)}, "seq_ordering": "sorted"}
    )
    made.init_seq_order(epoch=1)
    passed = numpy.cumsum(lengths)
    for i in range(1, 99):
        done, first = made.get_complete_frac(i), made.get_complete_frac(0)
        left = (passed[i] - passed[0]) / (done - first) * (1 - done)
        assert left == pytest.approx(passed[-1] - passed[i], rel=0.1)
