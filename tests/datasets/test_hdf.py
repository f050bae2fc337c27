from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.hdf import HDFDataset, HDFDatasetWriter, SimpleHDFWriter
from returnn.util.errors import UserError

from .cases import static, static_seqs, write_hdf
from .corpus_checks import assert_equal_seqs, seqs_of_epoch


def read(filename, **options):
    dataset = init_dataset({"class": "HDFDataset", "files": [str(filename)], **options})
    dataset.init_seq_order(1)
    return dataset


def seqs(dim, min_size=1):
    features = hnp.arrays("float32", st.tuples(st.integers(1, 5), st.just(dim)), elements=st.floats(-9, 9, width=32))
    labels = hnp.arrays("int32", st.integers(0, 5), elements=st.integers(0, 6))
    tags = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
    return st.lists(st.tuples(features, labels, tags), min_size=min_size, max_size=8, unique_by=lambda seq: seq[2])


@settings(max_examples=25, deadline=None)
@given(seqs(dim=3))
def test_writing_and_reading_is_identity(batch):
    with tempfile.TemporaryDirectory() as folder:
        filename = f"{folder}/a.hdf"
        with SimpleHDFWriter(filename, dim=3, extra_type={"classes": (7, 1, "int32")}) as writer:
            max_len = max(len(features) for features, _, _ in batch)
            padded = np.full((len(batch), max_len, 3), np.nan, "float32")
            for i, (features, _, _) in enumerate(batch):
                padded[i, : len(features)] = features
            lens = [len(features) for features, _, _ in batch]
            writer.insert_batch(padded, lens, [tag for _, _, tag in batch], extra={"classes": [c for _, c, _ in batch]})
        dataset = read(filename)
        expected = [(tag, {"data": features, "classes": labels}) for features, labels, tag in batch]
        assert_equal_seqs(seqs_of_epoch(dataset), expected)
        assert dataset.num_outputs == {"data": (3, 2), "classes": (7, 1)}
        for features, _, tag in batch:
            np.testing.assert_array_equal(dataset.get_data_by_seq_tag(tag, "data"), features)


@pytest.mark.parametrize("name", ["static", "dummy"])
def test_dump_of_a_dataset_is_the_same_dataset(name, tmp_path):
    dummy = {"class": "DummyDatasetMultipleSequenceLength", "input_dim": 3, "output_dim": 5, "num_seqs": 3000}
    options = {"static": static(), "dummy": {**dummy, "seq_len": {"data": 1, "classes": 2}}}[name]
    dataset = init_dataset(options)
    dataset.init_seq_order(1)
    assert_equal_seqs(seqs_of_epoch(read(write_hdf(tmp_path / "a.hdf", options))), seqs_of_epoch(dataset))


def test_dump_of_a_part_of_an_epoch(tmp_path):
    dataset = init_dataset(static(seq_ordering="reverse"))
    writer = HDFDatasetWriter(str(tmp_path / "a.hdf"))
    writer.dump_from_dataset(dataset, start_seq=2, end_seq=4)
    writer.close()
    assert read(tmp_path / "a.hdf").get_all_tags() == ["tag-8", "tag-7"]


def test_layout_is_the_documented_one(tmp_path):
    filename = write_hdf(tmp_path / "a.hdf")
    expected = static_seqs()
    with h5py.File(filename) as file:
        num_frames = sum(len(seq["data"]) for seq in expected)
        assert file["inputs"].shape == (num_frames, 3)
        assert file.attrs["inputPattSize"] == 3
        assert file.attrs["numLabels"] == 5
        assert file.attrs["numSeqs"] == len(expected)
        assert file.attrs["numTimesteps"] == num_frames
        assert file["seqLengths"].dtype == "int32"
        assert file["seqLengths"][0].tolist() == [len(expected[0]["data"]), len(expected[0]["classes"])]
        assert file["seqTags"].asstr()[0] == "tag-0"
        assert list(file["targets/size"].attrs["classes"]) == [5, 1]
        assert file["targets/data/classes"].shape == (sum(len(seq["classes"]) for seq in expected),)


def write_old_file(filename, lengths, *, tags="S", targets=True):
    """As other programs write it: fixed-length tags, and fewer columns of lengths."""
    lengths = np.array(lengths, "int32")
    num_frames = int((lengths if lengths.ndim == 1 else lengths[:, 0]).sum())
    with h5py.File(filename, "w") as file:
        file.attrs["inputPattSize"] = 2
        file.attrs["numLabels"] = 3
        file["inputs"] = np.arange(num_frames * 2, dtype="float32").reshape(-1, 2)
        file["seqLengths"] = lengths
        file["seqTags"] = np.array([f"tag-{i}" for i in range(len(lengths))], dtype=tags)
        if targets:
            num_labels = int((lengths if lengths.ndim == 1 else lengths[:, -1]).sum())
            for key in ("a", "b"):
                file[f"targets/data/{key}"] = np.arange(num_labels, dtype="int32") % 3
                file["targets"].require_group("size").attrs[key] = (3, 1)
            file["targets/labels/a"] = np.array([b"x", b"y", b"z"])


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([2, 3, 1], {"data": 3, "a": 3, "b": 3}),
        ([[2], [3], [1]], {"data": 3, "a": 3, "b": 3}),
        ([[2, 1], [3, 2], [1, 1]], {"data": 3, "a": 2, "b": 2}),
        ([[2, 1, 1], [3, 2, 2], [1, 1, 1]], {"data": 3, "a": 2, "b": 2}),
    ],
)
def test_old_files_have_fewer_columns_of_lengths(lengths, expected, tmp_path):
    write_old_file(tmp_path / "old.hdf", lengths)
    dataset = read(tmp_path / "old.hdf")
    assert dataset.get_seq_length(1).dict == expected
    dataset.load_seqs(1, 2)
    assert dataset.get_data(1, "data")[0].tolist() == [4.0, 5.0]
    assert {key: len(dataset.get_data(1, key)) for key in dataset.get_data_keys()} == expected
    assert dataset.labels["a"] == ["x", "y", "z"]
    assert dataset.serialize_data("a", np.array([0, 2])) == "xz"
    assert dataset.get_tag(1) == "tag-1"


def test_sparse_input(tmp_path):
    with SimpleHDFWriter(str(tmp_path / "a.hdf"), dim=10, ndim=1, labels=list("abcdefghij")) as writer:
        writer.insert_batch(np.array([[1, 2, 3], [4, 0, 0]]), [3, 1], ["x", "y"])
    dataset = read(tmp_path / "a.hdf")
    assert dataset.is_data_sparse("data")
    assert dataset.get_data_dim("data") == 10
    assert dataset.get_data(0, "data").tolist() == [1, 2, 3]
    assert dataset.labels["data"][4] == "e"


@pytest.mark.parametrize(
    ("inputs", "lengths", "extra", "message"),
    [
        ([[0, 1, 2]], [4], [0], "sequence 'x': a length of 4, but the batch has 3 in axis 1"),
        ([[0, 1, 2]], [-1], [0], "sequence 'x': a length of -1"),
        ([[0, 9, 10]], [3], [0], "data key 'data' of sequence 'x': the label 10, but by its dim they are 0 to 9"),
        ([[0, -1, 0]], [3], [0], "the label -1"),
        ([[0.5, 1, 2]], [3], [0], "float64 values, but labels are integers"),
        ([[0, 1, 2]], [3], [4], "data key 'classes' of sequence 'x': the label 4, but by its dim they are 0 to 3"),
    ],
)
def test_batches_that_are_not_what_was_said_are_not_written(tmp_path, inputs, lengths, extra, message):
    filename = str(tmp_path / "a.hdf")
    with SimpleHDFWriter(filename, dim=10, ndim=1, extra_type={"classes": (4, 1, "int32")}) as writer:
        wanted = [[3, 4, 99]]  # padding may be anything
        writer.insert_batch(np.array(wanted), [2], ["w"], extra={"classes": [np.array([3])]})
        both, of_both = np.array([wanted[0], *inputs]), [np.array([3]), np.array(extra)]
        with pytest.raises(UserError, match=message):
            writer.insert_batch(both, [2, *lengths], ["v", "x"], extra={"classes": of_both})
    with h5py.File(filename) as file:
        assert file["seqTags"][()].tolist() == [b"w"]
        assert file["inputs"][()].tolist() == [3, 4]


def test_more_than_one_axis_of_varying_size(tmp_path):
    images = np.random.RandomState(1).normal(size=(2, 4, 5, 3)).astype("float32")
    with SimpleHDFWriter(str(tmp_path / "a.hdf"), dim=3, ndim=3) as writer:
        writer.insert_batch(images, {0: [4, 2], 1: [1, 5]}, ["x", "y"])
    dataset = read(tmp_path / "a.hdf")
    dataset.load_seqs(0, 2)
    for i, (height, width) in enumerate([(4, 1), (2, 5)]):
        assert dataset.get_data(i, "sizes").tolist() == [height, width]
        np.testing.assert_array_equal(dataset.get_data(i, "data").reshape(height, width, 3), images[i, :height, :width])


def test_axes_of_varying_size_come_first(tmp_path):
    file = str(tmp_path / "file.hdf")
    data = np.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5)  # [B, height, F, width]
    with SimpleHDFWriter(file, dim=4, ndim=3) as writer:
        writer.insert_batch(data, {0: [3, 2], 2: [1, 5]}, ["a", "b"])
    dataset = HDFDataset([file])
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 2)
    for i, (height, width) in enumerate([(3, 1), (2, 5)]):
        expected = data[i, :height, :, :width].transpose(0, 2, 1).reshape(height * width, 4)
        np.testing.assert_array_equal(dataset.get_data(i, "data"), expected)
        assert dataset.get_data(i, "sizes").tolist() == [height, width]


def test_values_of_bfloat16_are_written_as_float32(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    file, data = str(tmp_path / "file.hdf"), np.arange(6, dtype="float32").reshape(1, 3, 2)
    with SimpleHDFWriter(file, dim=2) as writer:
        writer.insert_batch(data.astype(ml_dtypes.bfloat16), [3], ["a"])
    dataset = HDFDataset([file])
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 1)
    assert dataset.get_data_dtype("data") == "float32"
    np.testing.assert_array_equal(dataset.get_data(0, "data"), data[0])


def test_extending_a_file(tmp_path):
    filename = str(tmp_path / "a.hdf")
    for tag in ("x", "y"):
        with SimpleHDFWriter(filename, dim=2, extend_existing_file=tag == "y") as writer:
            writer.insert_batch(np.ones((1, 3, 2), "float32"), [3], [tag])
    assert read(filename).get_all_tags() == ["x", "y"]
    with pytest.raises(UserError, match=r"exists already\.\n  Remove it"):
        SimpleHDFWriter(filename, dim=2)


def test_file_is_replaced_once_the_new_one_is_complete(tmp_path):
    filename = str(tmp_path / "a.hdf")
    for tag in ("x", "y"):
        with SimpleHDFWriter(filename, dim=2, replace_existing_file=True) as writer:
            writer.insert_batch(np.ones((1, 3, 2), "float32"), [3], [tag])
            assert not os.path.exists(filename) or read(filename).get_all_tags() == ["x"]
    assert read(filename).get_all_tags() == ["y"]
    os.mkfifo(tmp_path / "fifo")
    for name in (tmp_path / "fifo", tmp_path):
        with pytest.raises(UserError, match=r"that is no file, so it cannot be written\."):
            SimpleHDFWriter(str(name), dim=2, replace_existing_file=True)


def _extend(filename, classes):
    with SimpleHDFWriter(filename, dim=3, extend_existing_file=True) as writer:
        for tag, labels in zip("xyz", classes, strict=False):
            writer.insert_batch(np.ones((1, 3, 3), "float32"), [3], [tag], extra={"classes": [labels]})


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    filename = write_hdf(tmp_path / "a.hdf")
    before = Path(filename).read_bytes()
    with pytest.raises(DataError, match=r"key 'classes' of sequence 'y': shape \(2, 2\) has 2 axes, expected 1"):
        _extend(filename, [np.zeros(2, "int32"), np.zeros((2, 2), "int32")])
    assert Path(filename).read_bytes() == before
    assert os.listdir(tmp_path) == ["a.hdf"]


def test_file_has_no_name_before_it_is_complete(tmp_path):
    writer = SimpleHDFWriter(str(tmp_path / "a.hdf"), dim=2)
    writer.insert_batch(np.ones((1, 3, 2), "float32"), [3], ["x"])
    assert not (tmp_path / "a.hdf").exists()
    writer.close()
    assert read(tmp_path / "a.hdf").num_seqs == 1


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    code = (
        "import os, signal, sys; from returnn.datasets.hdf import SimpleHDFWriter;"
        "writer = SimpleHDFWriter(sys.argv[1], dim=2); os.kill(os.getpid(), signal.SIGKILL)"
    )
    filename = str(tmp_path / "a.hdf")
    subprocess.run([sys.executable, "-c", code, filename], check=False)
    assert len(os.listdir(tmp_path)) == 1
    with SimpleHDFWriter(filename, dim=2) as writer:
        writer.insert_batch(np.ones((1, 3, 2), "float32"), [3], ["x"])
        assert os.listdir(tmp_path) == [os.path.basename(writer.tmp_filename)]
    assert os.listdir(tmp_path) == ["a.hdf"]
    (tmp_path / "ordinary").write_text("")
    assert os.stat(filename).st_mode == os.stat(tmp_path / "ordinary").st_mode


def test_reading_while_writing(tmp_path):
    writer = SimpleHDFWriter(str(tmp_path / "a.hdf"), dim=2, swmr=True)
    for i in range(2):
        writer.insert_batch(np.ones((1, 3, 2), "float32"), [3], [f"tag-{i}"])
        with h5py.File(tmp_path / "a.hdf", "r", swmr=True) as file:
            assert file["inputs"].shape[0] == 3 * (i + 1)
    writer.close()
    assert read(tmp_path / "a.hdf").num_seqs == 2


def test_batch_of_wrong_size_is_an_error(tmp_path):
    with SimpleHDFWriter(str(tmp_path / "a.hdf"), dim=2) as writer:
        writer.insert_batch(np.ones((1, 3, 2), "float32"), [3], ["x"])
        with pytest.raises(ValueError, match=r"a batch of 2 sequence tags, but of \{'inputs': 1, 'seq_len': 1\}"):
            writer.insert_batch(np.ones((1, 3, 2), "float32"), [3], ["x", "y"])
        with pytest.raises(ValueError, match=r"inputs have shape \(1, 3\), expected batch and 2 axes"):
            writer.insert_batch(np.ones((1, 3), "float32"), [3], ["x"])


def test_times_and_file_borders(tmp_path):
    write_old_file(tmp_path / "a.hdf", [2, 3], targets=False)
    write_old_file(tmp_path / "b.hdf", [1, 2], targets=False)
    with h5py.File(tmp_path / "b.hdf", "a") as file:
        file["times"] = np.array([0.5, 1.0, 1.5])
    dataset = read(tmp_path / "a.hdf")
    dataset.add_file(str(tmp_path / "b.hdf"))
    dataset.init_seq_order(1)
    assert [dataset.get_seq_length(i)["data"] for i in range(4)] == [2, 3, 1, 2]
    assert dataset.get_times(0) is None
    assert dataset.get_times(3).tolist() == [1.0, 1.5]
    assert dataset.get_seq_start(3).tolist() == [6]
    assert dataset.get_num_timesteps() == 8


def test_cache_keeps_within_its_limit(tmp_path):
    filename = write_hdf(tmp_path / "a.hdf")
    dataset = read(filename, cache_byte_size=400)
    for _ in range(2):
        seqs_of_epoch(dataset)
        assert 0 < dataset.nbytes <= 400
    assert dataset.delete(10**6) > 0
    assert dataset.nbytes == 0
    assert dataset.insert_alloc_interval(1, 3) == 2
    assert dataset.alloc_intervals == [(1, 3)]
    assert [dataset.alloc_interval_index(i) for i in range(4)] == [-1, 0, 0, -1]
    assert dataset.remove_alloc_interval(1) == 1
    assert dataset.alloc_intervals == [(2, 3)]


def test_bundle_of_files(tmp_path):
    write_old_file(tmp_path / "a.hdf", [2, 3])
    write_old_file(tmp_path / "b.hdf", [1, 2])
    (tmp_path / "all.bundle").write_text(f"{tmp_path}/a.hdf\n\n{tmp_path}/b.hdf\n")
    assert read(tmp_path / "all.bundle").num_seqs == 4


def damage_no_inputs(file):
    del file["inputs"]


def damage_short(file):
    data = file["inputs"][:-1]
    del file["inputs"]
    file["inputs"] = data


def damage_tags(file):
    data = file["seqTags"][:-1]
    del file["seqTags"]
    file["seqTags"] = data


def damage_negative(file):
    file["seqLengths"][1] = (-1, 2, 2)


def damage_size(file):
    del file["targets/size"].attrs["a"]


def damage_nan(file):
    file["inputs"][3] = np.nan


def damage_label(file):
    file["targets/data/b"][2] = 41


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_no_inputs, "HDFDataset: has no 'inputs'.\n  File: {file}\n  It has: seqLengths, seqTags, targets."),
        (damage_short, "data key 'data': has 5 frames, but the sequence lengths add up to 6.\n  File: {file}"),
        (damage_tags, "has 3 sequence lengths, but 2 sequence tags.\n  File: {file}"),
        (damage_negative, "sequence 'tag-1': has a negative length.\n  File: {file}"),
        (damage_size, "data key 'a': has no size in the attributes of 'targets/size'.\n  File: {file}"),
        (
            damage_nan,
            "data key 'data' of sequence 'tag-1': nan in 2 of 6 numbers, first at frame 1.\n  File: {file}, sequence 1",
        ),
        (
            damage_label,
            "data key 'b' of sequence 'tag-1': label 41 at frame 1 is out of range.\n  File: {file}, sequence 1",
        ),
    ],
)
def test_wrong_data_names_file_sequence_and_key(damage, message, tmp_path):
    filename = tmp_path / "a.hdf"
    write_old_file(filename, [[2, 1, 1], [3, 2, 2], [1, 1, 1]])
    with h5py.File(filename, "a") as file:
        damage(file)
    with pytest.raises(DataError) as info:
        seqs_of_epoch(read(filename))
    assert message.format(file=filename) in str(info.value)
    assert str(info.value).count("\n") < 5


def test_strings_are_read_as_strings(tmp_path):
    filename = tmp_path / "a.hdf"
    write_old_file(filename, [[2, 1, 1], [3, 2, 2], [1, 1, 1]])
    with h5py.File(filename, "a") as file:
        del file["targets/data/a"]
        file["targets/data/a"] = np.array([b"x", b"y", b"z", b"x"])
    _tag, data = seqs_of_epoch(read(filename))[0]
    assert data["a"].tolist() == [b"x"]


def test_sequence_without_frames_is_an_error(tmp_path):
    write_old_file(tmp_path / "a.hdf", [2, 0])
    dataset = read(tmp_path / "a.hdf")
    with pytest.raises(DataError, match=r"data key 'data' of sequence 'tag-1': has no frames\.\n  File: .*a.hdf, seq"):
        dataset.load_seqs(0, 2)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "text.hdf").write_text("hello")
    for name, problem in [("missing.hdf", "there is no such file"), ("text.hdf", "is no HDF file, or a damaged one")]:
        with pytest.raises(DataError) as info:
            read(tmp_path / name)
        assert f"HDFDataset: {problem}" in str(info.value)
        assert f"File: {tmp_path / name}" in str(info.value)


def test_text_in_place_of_an_hdf_file(tmp_path):
    text = "ein Hund läuft\n" * 200
    (tmp_path / "a.txt").write_bytes(text.encode("utf8"))
    (tmp_path / "b.gz").write_bytes(gzip.compress(text.encode("utf8")))
    (tmp_path / "c.hdf").write_bytes(b"HDF\r\n\x00\x01\x02" * 9)
    (tmp_path / "d.hdf").write_bytes(b"")
    for name, is_text in (("a.txt", True), ("b.gz", True), ("c.hdf", False), ("d.hdf", False)):
        with pytest.raises(DataError, match="is no HDF file") as info:
            read(tmp_path / name)
        assert ("It is a text, for {'class': 'LmDataset'" in str(info.value)) == is_text


def test_archive_in_place_of_an_hdf_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "[]")
    with pytest.raises(DataError, match=r"is no HDF file.*\n.*\n  It is an archive.*'OggZipDataset', 'path': '.*zip'"):
        read(tmp_path / "a.zip")


def test_cut_file_is_an_error(tmp_path):
    filename = write_hdf(tmp_path / "a.hdf")
    content = Path(filename).read_bytes()
    (tmp_path / "cut.hdf").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="is no HDF file, or a damaged one"):
        read(tmp_path / "cut.hdf")


def test_no_files_and_no_sequences(tmp_path):
    with pytest.raises(UserError, match="HDFDataset: option 'files' is missing or empty"):
        init_dataset({"class": "HDFDataset", "files": []})
    write_old_file(tmp_path / "empty.hdf", np.zeros((0, 3)))
    with pytest.raises(DataError, match=r"there are no sequences\.\n  File: .*empty.hdf"):
        read(tmp_path / "empty.hdf")


def test_files_with_different_keys(tmp_path):
    write_old_file(tmp_path / "a.hdf", [2, 3])
    write_old_file(tmp_path / "b.hdf", [2, 3], targets=False)
    dataset = read(tmp_path / "a.hdf")
    with pytest.raises(DataError, match=r"data key 'a': is not there, but of dim 3 with 1 axis in .*a.hdf"):
        dataset.add_file(str(tmp_path / "b.hdf"))


def test_tags_that_are_missing_or_there_twice(tmp_path):
    write_old_file(tmp_path / "a.hdf", [2, 3])
    dataset = HDFDataset(files=[str(tmp_path / "a.hdf")] * 2)
    with pytest.raises(DataError, match=r"sequence 'x': is missing\.\n  File: .*\n  The first tag here is 'tag-0'"):
        dataset.init_seq_order(1, seq_list=["x"])
    with pytest.raises(
        DataError, match=r"sequence 'tag-1': is there 2 times, so it cannot be found by its tag\.\n  File"
    ):
        dataset.init_seq_order(1, seq_list=["tag-1"])


def test_unique_seq_tags(tmp_path):
    write_old_file(tmp_path / "a.hdf", [2, 3])
    options = {"class": "HDFDataset", "files": [str(tmp_path / "a.hdf")] * 2}
    for unique, expected in [(False, 4), (True, 2)]:
        dataset = init_dataset({**options, "unique_seq_tags": unique})
        dataset.init_seq_order(1)
        assert dataset.num_seqs == expected


def test_many_sequences_are_found_across_blocks(tmp_path):
    num_seqs = 5000
    write_old_file(tmp_path / "a.hdf", np.arange(num_seqs) % 3 + 1, targets=False)
    dataset = read(tmp_path / "a.hdf", seq_ordering="random")
    starts = np.cumsum(np.concatenate([[0], np.arange(num_seqs) % 3 + 1]))
    for seq_idx in range(0, num_seqs, 97):
        corpus_seq_idx = dataset.get_corpus_seq_idx(seq_idx)
        dataset.load_seqs(seq_idx, seq_idx + 1)
        assert dataset.get_data(seq_idx, "data")[0, 0] == 2 * starts[corpus_seq_idx]
        assert dataset.get_tag(seq_idx) == f"tag-{corpus_seq_idx}"


def test_tags_of_many_sequences_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("returnn.datasets.hdf.hdf_file._READ_BLOCK", 16)
    monkeypatch.setattr("returnn.datasets.hdf.hdf_file._MIN_DENSITY", 4)
    write_old_file(tmp_path / "a.hdf", [1] * 50, targets=False)
    dataset = read(tmp_path / "a.hdf", seq_ordering="random_sample:0.7")
    tags = [dataset.get_tag(i) for i in range(dataset.num_seqs)]
    assert dataset.get_tags_of_epoch() == tags
    corpus_indices = [dataset.get_corpus_seq_idx(i) for i in range(dataset.num_seqs)]
    dataset.init_seq_order(1, seq_list=tags)
    assert [int(i) for i in dataset.get_current_seq_order()] == corpus_indices
    dataset.init_seq_order(1, seq_list=[])
    assert dataset.num_seqs == 0


def test_full_disk_is_an_error_and_leaves_what_was_there(tmp_path):
    code = (
        "import resource, sys, numpy\n"
        "from returnn.datasets.hdf import SimpleHDFWriter\n"
        "from returnn.util.errors import UserError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "try:\n"
        "    with SimpleHDFWriter('x.hdf', dim=40, ndim=2) as writer:\n"
        "        for i in range(200):\n"
        "            writer.insert_batch(numpy.ones((1, 1000, 40), 'float32'), [1000], [str(i)])\n"
        "except UserError as exc:\n"
        "    print(exc)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.stdout == (
        "HDF file 'x.hdf' cannot be written: File too large.\n"
        "  Is the disk full? Nothing is there under this name, or what was there before.\n"
    )
    assert run.returncode == 0, run.stderr  # the library crashes at the end of the process, if it was told
    assert not list(tmp_path.iterdir())


def test_words_are_bytes(tmp_path):
    words = np.array([[b"hello", b"you"]])
    with SimpleHDFWriter(str(tmp_path / "words.hdf"), dim=None, ndim=1) as writer:
        writer.insert_batch(words, [2], ["a"])
    source = init_dataset({"class": "HDFDataset", "files": [str(tmp_path / "words.hdf")]})
    copy = HDFDatasetWriter(str(tmp_path / "copy.hdf"))
    copy.dump_from_dataset(source, use_progress_bar=False)
    copy.close()
    dataset = read(tmp_path / "copy.hdf")
    dataset.load_seqs(0, 1)
    assert dataset.get_data(0, "data").tolist() == [b"hello", b"you"]
    writer = SimpleHDFWriter(str(tmp_path / "other.hdf"), dim=None, ndim=1)
    with pytest.raises(UserError, match=r"'inputs' has texts in Unicode.*\n.*numpy.char.encode\(inputs, 'utf8'\)"):
        writer.insert_batch(words.astype(str), [2], ["a"])
    writer.close()


def test_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write the file '.*/file/x.hdf': "):
        SimpleHDFWriter(str(tmp_path / "file" / "x.hdf"), dim=3, ndim=2)
    with pytest.raises(UserError, match=r"cannot write the file '/proc/x.hdf': "):
        SimpleHDFWriter("/proc/x.hdf", dim=3, ndim=2)


def test_what_is_loaded_before_an_epoch_begins_has_the_order_of_the_file(tmp_path):
    write_old_file(tmp_path / "a.hdf", [2, 3, 1], targets=False)
    dataset = HDFDataset([str(tmp_path / "a.hdf")], seq_ordering="sorted")
    dataset.initialize()
    assert dataset.num_seqs == 3
    dataset.load_seqs(0, 3)
    assert [len(dataset.get_data(i, "data")) for i in range(3)] == [2, 3, 1]
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 3)
    assert [len(dataset.get_data(i, "data")) for i in range(3)] == [1, 2, 3]
