"""Descriptions of data sets, changed so that an epoch has all of the data."""

import numpy
import pytest

from returnn.datasets.core.registry import init_dataset, init_dataset_via_str
from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.datasets.whole_data import parts_of, whole_data

NUM = 6


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """:return: description of a data set with a third of a file in each epoch"""
    file = str(tmp_path_factory.mktemp("whole") / "data.hdf")
    with SimpleHDFWriter(file, dim=1) as writer:
        for i in range(NUM):
            writer.insert_batch(numpy.full((1, 2, 1), i, "float32"), [2], [f"seq-{i}"])
    return {"class": "HDFDataset", "files": [file], "partition_epoch": 3}


def wrapped(part):
    file = part["files"][0]
    data_map = {"data": ("a", "data")}
    return {
        "alone": part,
        "a function": lambda: part,
        "a wrapper": {"class": "PostprocessingDataset", "dataset": part, "map_seq": lambda seq, **_: seq},
        "a function in it": {"class": "MultiEpochDataset", "dataset": lambda: part, "multi_epoch": 2},
        "option of the wrapper": {
            "class": "MultiEpochDataset",
            "dataset": {"class": "HDFDataset", "files": [file]},
            "partition_epoch": 3,
            "multi_epoch": 1,
        },
        "several": {"class": "MetaDataset", "datasets": {"a": part}, "data_map": data_map},
        "another process": {"class": "MultiProcDataset", "dataset": part, "num_workers": 1, "buffer_size": 1},
        "files": {
            "class": "DistributeFilesDataset",
            "files": [file] * 2,
            "get_sub_epoch_dataset": lambda files: {"class": "HDFDataset", "files": files[:1]},
            "partition_epoch": 2,
        },
    }


@pytest.mark.parametrize("case", sorted(wrapped({"files": [""]})))
def test_each_sequence_is_there_once(part, case):
    dataset = init_dataset(whole_data(wrapped(part)[case]))
    for epoch in (1, 2):
        dataset.init_seq_order(epoch)
        tags = []
        while dataset.is_less_than_num_seqs(len(tags)):
            dataset.load_seqs(len(tags), len(tags) + 1)
            tags.append(dataset.get_tag(len(tags)))
        assert sorted(tags) == [f"seq-{i}" for i in range(NUM)]


def test_description_of_the_config_stays(part):
    before = dict(part)
    assert whole_data({"class": "MetaDataset", "datasets": {"a": part}})["datasets"]["a"]["partition_epoch"] == 1
    assert part == before


def test_text(part):
    text = f"HDFDataset:files={part['files']},partition_epoch=3"
    for whole, num in ((False, NUM // 3), (True, NUM)):
        dataset = init_dataset_via_str(text, whole=whole)
        dataset.init_seq_order(1)
        assert dataset.num_seqs == num


def test_what_is_no_data_set_stays():
    vocab = {"class": "Vocabulary", "vocab_file": "x"}
    description = {"class": "LmDataset", "corpus_file": ["a"], "orth_vocab": vocab, "repeat_epoch": 2}
    assert whole_data(description) == description
    assert whole_data(None) is None
    assert whole_data("a.hdf") == "a.hdf"


def test_number_of_parts(part):
    assert parts_of(part) == parts_of({"class": "MetaDataset", "datasets": {"a": part}}) == 3
    assert parts_of("a.hdf") == parts_of(None) == parts_of(whole_data(part)) == 1
    two = {"class": "MultiEpochDataset", "dataset": part, "multi_epoch": 2}
    assert parts_of(two) == parts_of(init_dataset(two)) == 2
    assert parts_of(init_dataset(part)) == parts_of(init_dataset(lambda: part)) == 3
