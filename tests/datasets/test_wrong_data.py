"""Wrong data gives one message with data set, sequence and key."""

from __future__ import annotations

import gzip
import pickle

import numpy as np
import pytest

from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset

from .cases import static_seqs


def load_with(key, value, **options):
    seqs = static_seqs()
    seqs[2][key] = value
    dataset = init_dataset(
        {"class": "StaticDataset", "name": "dev", "data": seqs, "output_dim": {"classes": (5, 1)}, **options}
    )
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 5)


FRAMES = static_seqs()[2]["data"]
WITH_NAN = np.where(FRAMES[1, 0] == FRAMES, np.nan, FRAMES)
PLACE = "StaticDataset 'dev': data key {!r} of sequence 'tag-2': "


EMPTY = (
    "has no frames.\n  'min_seq_length = {\"data\": 1}' leaves such sequences out of training and dev, "
    "'seq_list_filter_file' always."
)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("classes", np.array([1, 5, 2]), "label 5 at frame 1 is out of range.\n  There are 5 labels, from 0 to 4."),
        ("classes", np.array([1, -1]), "label -1 at frame 1 is out of range.\n  There are 5 labels, from 0 to 4."),
        ("classes", np.array([0.5, 1.0]), "labels have dtype float64.\n  Labels have to be integers."),
        ("classes", np.array([["a"]]), "dtype <U1 is no number.\n  Expected int32."),
        ("classes", np.array([[1, 2]]), "shape (1, 2) has 2 axes, expected 1 (with time)."),
        ("data", FRAMES[:, :2], "feature dimension is 2, expected 3."),
        (
            "data",
            np.where(FRAMES[1, 0] == FRAMES, np.nan, FRAMES),
            f"nan in 1 of {FRAMES.size} numbers, first at frame 1.",
        ),
        ("data", np.full_like(FRAMES, np.inf), f"inf in {FRAMES.size} of {FRAMES.size} numbers, first at frame 0."),
        ("data", FRAMES[:0], EMPTY),
    ],
)
def test_message(key, value, problem):
    with pytest.raises(DataError) as info:
        load_with(key, value)
    assert str(info.value) == PLACE.format(key) + problem
    assert (info.value.dataset, info.value.seq, info.value.key) == ("StaticDataset 'dev'", "tag-2", key)
    assert str(pickle.loads(pickle.dumps(info.value))) == str(info.value)


def test_long_tags_are_shortened():
    text = str(DataError("is missing", dataset="HDFDataset", seq="a" * 50_000 + "b" * 50_000))
    assert text == f"HDFDataset: sequence '{'a' * 100}...{'b' * 100}': is missing."


def test_large_finite_numbers_are_right():
    load_with("data", np.full_like(FRAMES, 3e38))


def test_empty_targets_are_right():
    load_with("classes", np.zeros(0, "int32"))


def test_missing_key():
    seqs = static_seqs()
    del seqs[2]["classes"]
    with pytest.raises(DataError) as info:
        init_dataset({"class": "StaticDataset", "data": seqs})
    assert str(info.value) == (
        "StaticDataset: data key 'classes' of sequence 'tag-2': is missing.\n  The sequence has: data, seq_tag."
    )


def test_no_data():
    with pytest.raises(DataError, match="StaticDataset: there are no sequences"):
        init_dataset({"class": "StaticDataset", "data": []})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"tag-1\n\xff\n", "byte 6 is not UTF-8"),
        (b"['tag-1', ", "not a Python literal"),
        (b"\n\n", "the list of sequence tags is empty"),
    ],
)
def test_wrong_list_of_tags(content, problem, tmp_path):
    (tmp_path / "list.txt").write_bytes(content)
    with pytest.raises(DataError) as info:
        load_with("data", FRAMES, seq_list_filter_file=str(tmp_path / "list.txt"))
    assert f"StaticDataset 'dev': {problem}" in str(info.value)
    assert f"File: {tmp_path / 'list.txt'}" in str(info.value)


def test_missing_list_of_tags(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(No such file or directory\)\.\n  File: .*list.txt"):
        load_with("data", FRAMES, seq_list_filter_file=str(tmp_path / "list.txt"))


def test_filter_that_fits_nothing(tmp_path):
    (tmp_path / "list.txt").write_text("other-tag\n")
    with pytest.raises(DataError) as info:
        load_with("data", FRAMES, seq_list_filter_file=str(tmp_path / "list.txt"))
    assert "It has tags such as 'other-tag', the data has 'tag-10'." in str(info.value)


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".pkl"])
def test_lengths_from_a_file(ending, tmp_path):

    lens = {f"tag-{i}": -i for i in range(11)}
    content = pickle.dumps(lens) if ending == ".pkl" else repr(lens).encode()
    path = tmp_path / f"lens{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    options = {"class": "StaticDataset", "data": static_seqs(), "seq_ordering": "sorted"}
    dataset = init_dataset({**options, "seq_order_seq_lens_file": str(path)})
    dataset.init_seq_order(1)
    assert [dataset.get_tag(i) for i in range(11)] == [f"tag-{i}" for i in reversed(range(11))]


def test_length_that_is_missing(tmp_path):
    (tmp_path / "lens.txt").write_text("{'tag-0': 3}")
    options = {"seq_order_seq_lens_file": str(tmp_path / "lens.txt"), "seq_ordering": "sorted"}
    with pytest.raises(DataError, match=r"sequence 'tag-1': has no length here\.\n  File: .*lens.txt"):
        load_with("data", FRAMES, **options)
