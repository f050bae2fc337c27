from __future__ import annotations

import json
import sys

import numpy
import pytest

from returnn.datasets.huggingface import HuggingFaceDataset, get_arrow_shard_files_from_hf_dataset_dir
from returnn.util.errors import ConfigError, MissingPackageError, UserError
from tests.datasets.corpus_checks import check_corpus_dataset, seqs_of_epoch
from tests.datasets.stand_ins import FakeTable

TEXTS = ["a b", "b", "a a b c"]


def make_table():
    return FakeTable(
        {
            "id": [f"row{i}" for i in range(3)],
            "text": TEXTS,
            "audio": [{"array": numpy.arange(10 * (i + 1)) / 100, "sampling_rate": 8000} for i in range(3)],
            "size": [3, 1, 2],
            "speaker": [7, 8, 7],
        }
    )


FORMAT = {
    "data": {"shape": (None, 1), "dtype": "float32"},
    "text": {"dtype": "int32", "vocab": {"vocab_file": None, "labels": ["a", "b", "c"]}},
    "raw": {"dtype": "string", "shape": ()},
    "speaker": {"dtype": "int32", "shape": (), "sparse": True, "dim": 10},
}


def make(**opts):
    opts = {
        "dataset_opts": make_table,
        "data_format": {key: FORMAT[key] for key in ("data", "text", "speaker")},
        "rename_columns": {"audio": "data"},
        **opts,
    }
    dataset = HuggingFaceDataset(**opts)
    dataset.initialize()
    return dataset


def test_properties():
    data_format = {key: FORMAT[key] for key in ("data", "text")}
    check_corpus_dataset(lambda **opts: make(data_format=data_format, **opts))
    check_corpus_dataset(lambda **opts: make(data_format=data_format, sorting_seq_len_column="size", **opts))


def test_data():
    dataset = make()
    dataset.init_seq_order(epoch=1)
    tag, data = seqs_of_epoch(dataset)[2]
    assert tag == dataset.get_tag(sorted_seq_idx=2) == "row2"
    assert dataset.get_corpus_seq_idx(sorted_seq_idx=2) == 2
    assert data["data"].shape == (30, 1)
    assert data["text"].tolist() == [0, 0, 1, 2]
    assert data["speaker"].tolist() == 7
    assert dataset.num_outputs["text"] == (3, 1)
    assert dataset.labels["text"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("opts", "expected"),
    [
        ({"sorting_seq_len_column": "size"}, ["row1", "row2", "row0"]),
        ({"sorting_seq_len_column_data": "text"}, ["row1", "row0", "row2"]),
    ],
)
def test_sorted_by_a_column(opts, expected):
    dataset = make(seq_ordering="sorted", **opts)
    dataset.init_seq_order(epoch=1)
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == expected


def test_text_and_tags_without_a_column():
    dataset = make(
        data_format={"raw": FORMAT["raw"]},
        rename_columns={"text": "raw"},
        seq_tag_column=None,
        map_func=lambda table: FakeTable({key: values[1:] for key, values in table.columns.items()}),
    )
    dataset.init_seq_order(epoch=1)
    assert [(tag, str(data["raw"])) for tag, data in seqs_of_epoch(dataset)] == [("seq-0", "b"), ("seq-1", "a a b c")]


def test_shard_files(tmp_path):
    (tmp_path / "b.arrow").write_bytes(b"")
    (tmp_path / "a.arrow").write_bytes(b"")
    names = [str(tmp_path / "a.arrow"), str(tmp_path / "b.arrow")]
    assert get_arrow_shard_files_from_hf_dataset_dir(str(tmp_path)) == names
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "b.arrow"}]}))
    assert get_arrow_shard_files_from_hf_dataset_dir(str(tmp_path)) == names[1:]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="there are no Arrow files in"):
        get_arrow_shard_files_from_hf_dataset_dir(str(tmp_path / "empty"))


def test_wrong_input_is_named(monkeypatch):
    with pytest.raises(ConfigError, match=r"there is no column 'txt'.\n  Did you mean 'text'"):
        make(data_format={"txt": {}})
    with pytest.raises(ConfigError, match="option 'data_format': 'text': there is no option 'sparce'"):
        make(data_format={"text": {"sparce": True}})
    dataset = make(data_format={"id": {"dtype": "float32"}})
    dataset.init_seq_order(epoch=1)
    with pytest.raises(UserError, match="sequence 'row0': data key 'id': 'row0' is no float32 array"):
        seqs_of_epoch(dataset)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        MissingPackageError, match=r"'datasets' is needed for HuggingFaceDataset.\n  pip install datasets"
    ):
        make(dataset_opts={"path": "x"})
