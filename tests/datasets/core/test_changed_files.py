"""Data that changes while it is read is an error, and never zeros or other sequences."""

import gc
import os
import shutil

import numpy
import pytest

from returnn.datasets.core import changed_files
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.hdf import HDFDataset, SimpleHDFWriter
from returnn.datasets.hdf.hdf_file import stored_digest
from returnn.util.errors import UserError
from tests.datasets import stand_ins
from tests.datasets.cases import CASES
from tests.datasets.test_ogg_zip import write_zip
from tests.datasets.test_stereo import write_hdf as write_stereo
from tests.datasets.util.test_rasr_archive import write_features


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


def copy_over_in_the_same_size(file):
    new = write(f"{file}.new", offset=100.0)
    assert os.path.getsize(new) == os.path.getsize(file)
    shutil.copyfile(new, file)


def replace(file):
    os.replace(write(f"{file}.new", offset=100.0), file)


CHANGES = [truncate, copy_over, copy_over_in_the_same_size, replace]


def touch(file):
    os.utime(file, ns=(1, 1))


@pytest.mark.parametrize("interval_s", [0.0, 1e9])
@pytest.mark.parametrize("change", CHANGES)
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


@pytest.mark.parametrize("change", CHANGES)
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


def text_file(path, content="a b\nb a\na a b\n"):
    path.write_text(content)
    return str(path)


def lm(tmp_path):
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "b"]}
    return {"class": "LmDataset", "corpus_file": text_file(tmp_path / "text.txt"), "orth_vocab": vocab}


def translation(tmp_path):
    for side in ("source", "target"):
        text_file(tmp_path / f"{side}.train")
        text_file(tmp_path / f"{side}.vocab.txt", "{'a': 0, 'b': 1}")
    return {"class": "TranslationDataset", "path": str(tmp_path), "file_postfix": "train"}


def ogg_zip(tmp_path):
    path = write_zip(tmp_path / "train.zip")
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["one", "two"], "unknown_label": "one"}
    return {"class": "OggZipDataset", "path": path, "audio": {"features": "raw"}, "targets": vocab}


def sprint_cache(tmp_path):
    return {"class": "SprintCacheDataset", "data": {"data": {"filename": write_features(tmp_path / "cache")}}}


def stereo(tmp_path):
    return {"class": "StereoHdfDataset", "hdfFile": write_stereo(tmp_path / "stereo.hdf")}


WITH_FILES = {
    **CASES,
    "LmDataset": lm,
    "TranslationDataset": translation,
    "OggZipDataset": ogg_zip,
    "SprintCacheDataset": sprint_cache,
    "StereoHdfDataset": stereo,
}


def open_files_in(folder):
    """:return: what this process has open there, and goes on to read from"""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if path.startswith(str(folder)):
            found.add(path)
    return found


@pytest.mark.parametrize("name", WITH_FILES)
def test_each_file_that_stays_open_is_watched(name, tmp_path, monkeypatch):
    stand_ins.install(monkeypatch)
    dataset = init_dataset(WITH_FILES[name](tmp_path))
    gc.collect()  # what the case wrote is closed
    for path in sorted(open_files_in(tmp_path)):
        dataset.init_seq_order(epoch=1)
        dataset.check_files()
        before = os.stat(path)
        os.utime(path, ns=(1, 1))
        if stored_digest(path):
            continue  # it is known to be the same
        with pytest.raises(UserError, match="has changed while it was read: it was written at"):
            dataset.check_files()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    dataset.finish_epoch(free_resources=True)


@pytest.mark.parametrize("name", ["LmDataset", "TranslationDataset", "OggZipDataset", "SprintCacheDataset"])
def test_files_are_open_at_all(name, tmp_path):
    dataset = init_dataset(WITH_FILES[name](tmp_path))
    (path, *_) = sorted(open_files_in(tmp_path))
    os.truncate(path, os.path.getsize(path) // 2)
    dataset_error = "it had .* bytes, and has"
    with pytest.raises(UserError, match=dataset_error):
        dataset.init_seq_order(epoch=1)


def test_change_while_the_last_sequences_are_read_ahead_by_a_process(tmp_path):
    inner = {"class": "HDFDataset", "files": [write(tmp_path / "train.hdf", num_seqs=4)]}
    dataset = init_dataset({"class": "MultiProcDataset", "dataset": inner, "num_workers": 2, "buffer_size": 10})
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 4)
    replace(str(tmp_path / "train.hdf"))
    with pytest.raises(UserError, match="has changed while it was read: "):
        dataset.is_less_than_num_seqs(4)
    dataset.finish_epoch(free_resources=True)


def test_change_in_a_process_of_its_own(tmp_path):
    options = lm(tmp_path)
    text_file(tmp_path / "text.txt", "a b\n" * 50)
    dataset = init_dataset({"class": "MultiProcDataset", "dataset": options, "num_workers": 1, "buffer_size": 1})
    dataset.init_seq_order(epoch=1)
    os.truncate(tmp_path / "text.txt", 50)
    with pytest.raises(UserError, match="it had 200 bytes, and has 50"):
        read(dataset)
    dataset.finish_epoch(free_resources=True)
