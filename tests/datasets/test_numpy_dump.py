from __future__ import annotations

import numpy as np
import pytest

from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset

from .corpus_checks import check_corpus_dataset, seqs_of_epoch


@pytest.fixture
def folder(tmp_path):
    for i in range(6):
        np.savetxt(tmp_path / f"x{i}.data.txt", np.full((i + 1, 3), i))
        np.savetxt(tmp_path / f"x{i}.targets.txt", [i % 4] * (i + 1), fmt="%i")
    return tmp_path


def make(folder, **options):
    options = {"prefix": f"{folder}/x", "postfix": ".txt", "num_outputs": 4, **options}
    return init_dataset({"class": "NumpyDumpDataset", **options})


def test_properties(folder):
    check_corpus_dataset(lambda **options: make(folder, **options))
    check_corpus_dataset(lambda **options: make(folder, start_seq=1, end_seq=5, num_inputs=3, **options))


@pytest.mark.parametrize(("options", "numbers"), [
    ({}, [0, 1, 2, 3, 4, 5]),
    ({"start_seq": 2}, [2, 3, 4, 5]),
    ({"end_seq": 3}, [0, 1, 2]),
    ({"start_seq": 1, "end_seq": 3}, [1, 2]),
])  # fmt: skip
def test_part_of_the_files(folder, options, numbers):
    dataset = make(folder, **options)
    dataset.init_seq_order(1)
    seqs = seqs_of_epoch(dataset)
    assert [tag for tag, _ in seqs] == [f"seq-{i}" for i in numbers]
    assert [int(data["data"][0, 0]) for _, data in seqs] == numbers
    assert [data["classes"].tolist() for _, data in seqs] == [[i % 4] * (i + 1) for i in numbers]
    assert (dataset.num_inputs, dataset.num_outputs) == (3, {"data": (3, 2), "classes": (4, 1)})


@pytest.mark.parametrize(("options", "file"), [
    ({"start_seq": 6}, "x6.data.txt"),
    ({"start_seq": 3, "end_seq": 3}, "x3.data.txt"),
    ({"end_seq": 8}, "x7.data.txt"),
    ({"postfix": ".txt.gz"}, "x0.data.txt.gz"),
])  # fmt: skip
def test_files_that_are_not_there_are_named(folder, options, file):
    with pytest.raises(DataError, match=rf"there is no such file\.\n  File: .*{file}$"):
        make(folder, **options)


def test_other_number_of_features_is_an_error(folder):
    dataset = make(folder, num_inputs=4)
    dataset.init_seq_order(1)
    with pytest.raises(DataError, match="feature dimension is 3, expected 4"):
        seqs_of_epoch(dataset)
