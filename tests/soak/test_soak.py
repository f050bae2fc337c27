"""The short form of the soak (see `soak.py`), and its own checks."""

import numpy
import pytest

from tests.soak.soak import soak
from tests.soak.training import differences, prepare, saved_epochs, write_data


@pytest.mark.slow
def test_training_under_faults_is_what_it_is_without(tmp_path):
    result = soak(minutes=0.5, seed=1, folder=tmp_path)
    assert not result.problems, result.report()
    assert result.faults
    print(result.report())


def test_a_difference_in_one_bit_is_found():
    values = {"a": numpy.zeros(3), "b": numpy.ones(2)}
    scores = {1: (0.1, {"dev_score": 0.5})}
    other = {"a": numpy.zeros(3), "b": numpy.nextafter(numpy.ones(2), 2)}
    assert differences((values, scores), (values, scores)) == []
    assert differences((values, scores), (other, scores)) == ["b"]
    assert differences((values, scores), ({"a": values["a"]}, scores)) == ["b"]
    assert differences((values, scores), (values, {1: (0.1, {"dev_score": 0.6})})) == ["scores"]


def test_data_is_the_same_each_time(tmp_path):
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        write_data(tmp_path / name, num_seqs=3, seed=seed)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() != (tmp_path / "three").read_bytes()
    prepare(tmp_path / "training")
    assert saved_epochs(tmp_path / "training") == []
