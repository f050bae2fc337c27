from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from returnn.config import Config, global_config_ctx
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


class Resample:
    """As a feature of the package: changes the values of a column."""

    def __init__(self, factor):
        self.factor = factor

    def cast(self, value):
        return {**value, "array": value["array"][:: self.factor]}

    @classmethod
    def generate_from_dict(cls, opts):
        if opts["_type"] != "Resample":
            raise ValueError(f"Feature type {opts['_type']!r} not found")
        return cls(**{name: value for name, value in opts.items() if name != "_type"})


@pytest.fixture
def package(monkeypatch, tmp_path):
    """In place of the package `datasets`. Its "Arrow files" have the numbers of rows of the table."""

    def from_file(name):
        opened.append(name)
        rows = [int(row) for row in Path(name).read_text().split()]
        return FakeTable({key: [values[row] for row in rows] for key, values in make_table().columns.items()})

    def concatenate(tables):
        return FakeTable({key: [x for table in tables for x in table[key]] for key in tables[0].column_names})

    def load_dataset(split=None):
        return make_table() if split else {"train": make_table(), "test": make_table()}

    opened = []
    content = {
        "Dataset": SimpleNamespace(from_file=from_file),
        "concatenate_datasets": concatenate,
        "load_dataset": load_dataset,
    }
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(**content))
    monkeypatch.setitem(sys.modules, "datasets.features", SimpleNamespace(features=Resample))
    (tmp_path / "data").mkdir()
    for i, rows in enumerate(["0 2", "1"]):
        (tmp_path / f"data/{i}.arrow").write_text(rows)
    return SimpleNamespace(opened=opened, folder=str(tmp_path / "data"))


@pytest.mark.parametrize("feature", [Resample(2), {"_type": "Resample", "factor": 2}])
def test_columns_of_other_features(feature, package):
    dataset = make(cast_columns={"data": feature})
    dataset.init_seq_order(epoch=1)
    plain = make()
    plain.init_seq_order(epoch=1)
    for (_, data), (_, before) in zip(seqs_of_epoch(dataset), seqs_of_epoch(plain), strict=True):
        numpy.testing.assert_array_equal(data["data"], before["data"][::2])
        numpy.testing.assert_array_equal(data["text"], before["text"])


@pytest.mark.parametrize(("cast_columns", "message"), [
    ({"audio": Resample(2)}, "there is no column 'audio'"),
    ({"data": {"_type": "Resampel"}}, "'cast_columns': 'data' cannot become .*: Feature type 'Resampel' not found"),
    ({"data": {"factor": 2}}, "'cast_columns': 'data' cannot become .*: there is no '_type'"),
    ({"size": Resample(2)}, "'cast_columns': 'size' cannot become"),
])  # fmt: skip
def test_wrong_features_of_columns_are_named(cast_columns, message, package):
    with pytest.raises(ConfigError, match=message):
        make(cast_columns=cast_columns)


@pytest.mark.parametrize("is_function", [False, True])
@pytest.mark.parametrize("use_file_cache", [False, True])
def test_files_of_a_table(is_function, use_file_cache, package, tmp_path):
    files = [f"{package.folder}/{i}.arrow" for i in range(2)]
    cache = tmp_path / "cache"
    with global_config_ctx(Config({"file_cache_opts": {"cache_directory": str(cache)}})):
        for opts, tags in [(package.folder, [0, 2, 1]), (files, [0, 2, 1]), (files[1], [1])]:
            dataset = make(
                dataset_opts=(lambda opts=opts: opts) if is_function else opts, use_file_cache=use_file_cache
            )
            dataset.init_seq_order(epoch=1)
            assert [tag for tag, _ in seqs_of_epoch(dataset)] == [f"row{i}" for i in tags]
    assert len(package.opened) == 5
    assert all(name.startswith(str(cache)) == use_file_cache for name in package.opened)


def test_table_that_is_loaded(package):
    for opts in ({"split": "train"}, lambda: {"split": "train"}):
        dataset = make(dataset_opts=opts)
        dataset.init_seq_order(epoch=1)
        assert len(seqs_of_epoch(dataset)) == 3
        with pytest.raises(ConfigError, match="option 'use_file_cache' is possible for a folder or Arrow files"):
            make(dataset_opts=opts, use_file_cache=True)
    with pytest.raises(ConfigError, match=r"gives several tables: train, test\.\n  Choose one by 'split'"):
        make(dataset_opts={})
    dataset = make(dataset_opts={}, map_func=lambda tables: tables["test"])
    assert dataset.get_all_tags() == ["row0", "row1", "row2"]
    with pytest.raises(ConfigError, match="option 'use_file_cache' is possible"):
        make(use_file_cache=True)


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
