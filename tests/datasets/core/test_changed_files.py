"""Data that changes while it is read is an error, and never zeros or other sequences."""

import os
import shutil

import numpy
import pytest

from returnn.datasets.core import changed_files
from returnn.datasets.hdf import HDFDataset, SimpleHDFWriter
from returnn.util.errors import UserError


def write(filename, *, num_seqs=40, offset=0.0):
    with SimpleHDFWriter(str(filename), dim=3, ndim=2) as writer:
        for i in range(num_seqs):
            data = numpy.full((1, 500, 3), 1.0 + i + offset, "float32")
            writer.insert_batch(data, seq_len={0: [500]}, seq_tag=[f"seq-{i}"])
    return str(filename)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(changed_files, "_INTERVAL_S", 0.0)
    return write(tmp_path / "train.hdf")


def opened(file):
    dataset = HDFDataset([file], name="train")
    dataset.initialize()
    dataset.init_seq_order(epoch=1)
    return dataset


def read(dataset, *, after=lambda seq_idx: None):
    """:return: the number in each sequence of the epoch"""
    numbers, i = [], 0
    while dataset.is_less_than_num_seqs(i):
        dataset.load_seqs(i, i + 1)
        numbers.append(float(dataset.get_data(i, "data").min()))
        after(i)
        i += 1
    return numbers


def truncate(file):
    os.truncate(file, os.path.getsize(file) // 2)


def copy_over(file):
    """As `cp new.hdf train.hdf`."""
    new = write(f"{file}.new", num_seqs=4)
    with open(new, "rb") as source, open(file, "r+b") as target:
        target.truncate(0)
        shutil.copyfileobj(source, target)


def replace(file):
    os.replace(write(f"{file}.new", offset=100.0), file)


def touch(file):
    os.utime(file, ns=(1, 1))


@pytest.mark.parametrize("interval_s", [0.0, 1e9])
@pytest.mark.parametrize("change", [truncate, copy_over, replace])
def test_change_within_an_epoch(change, interval_s, file, monkeypatch):
    monkeypatch.setattr(changed_files, "_INTERVAL_S", interval_s)
    dataset = opened(file)
    read_before = []

    def change_after_ten(seq_idx):
        read_before.append(seq_idx)
        if seq_idx == 10:
            change(file)

    with pytest.raises(UserError) as info:
        read(dataset, after=change_after_ten)
    lines = str(info.value).splitlines()
    assert lines[0].startswith("HDFDataset 'train': ")
    assert "has changed while it was read: " in lines[0]
    assert lines[1] == f"  File: {file}"
    assert lines[2].startswith("  Write new data under a new name")
    if not interval_s:
        assert read_before[-1] == 10  # nothing of the other data


@pytest.mark.parametrize("change", [truncate, copy_over, replace])
def test_change_between_epochs(change, file):
    dataset = opened(file)
    read(dataset)
    change(file)
    with pytest.raises(UserError, match="has changed while it was read: "):
        dataset.init_seq_order(epoch=2)


def test_sizes_and_times_are_named(file):
    dataset = opened(file)
    size = os.path.getsize(file)
    os.truncate(file, 1000)
    with pytest.raises(UserError, match=f"it had {size:,} bytes, and has 1,000"):
        dataset.init_seq_order(epoch=2)


def test_same_content_by_its_digest_is_no_change(file):
    dataset = opened(file)
    expected = read(dataset)
    touch(file)
    shutil.copyfile(file, f"{file}.copy")
    os.replace(f"{file}.copy", file)
    dataset.init_seq_order(epoch=1)
    assert read(dataset) == expected


def test_file_without_digest_must_not_be_written_again(file):
    dataset = opened(file)
    dataset._hdf_files[0].digest = None
    touch(file)
    with pytest.raises(UserError, match=r"it was written at 20.*, and again at 1970"):
        dataset.init_seq_order(epoch=1)


def test_deleted_file_can_be_read_on(file):
    dataset = opened(file)
    os.remove(file)
    dataset.init_seq_order(epoch=1)
    assert read(dataset) == [1.0 + i for i in range(40)]


def test_digest_tells_data_apart_and_not_the_way_it_was_written(tmp_path):
    digests = {}
    for name, options in {"a": {}, "b": {}, "c": {"offset": 1.0}, "d": {"num_seqs": 39}}.items():
        digests[name] = HDFDataset([write(tmp_path / name, **options)])._hdf_files[0].digest
    assert digests["a"] == digests["b"]
    assert len(set(digests.values())) == 3
