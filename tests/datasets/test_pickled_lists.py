"""Data files that are pickles run no code, whichever option names them."""

import os
import pickle

import pytest

from returnn.datasets.core.registry import init_dataset
from returnn.datasets.util.seq_lists import load_python_data
from returnn.util.errors import UserError

STATIC = {"class": "DummyDataset", "input_dim": 2, "output_dim": 2, "num_seqs": 3}


class Planted:
    def __reduce__(self):
        return os.system, ("touch planted",)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.pkl").write_bytes(pickle.dumps([Planted(), "seq-0"]))
    yield "list.pkl"
    assert os.listdir(tmp_path) == ["list.pkl"]


DATASETS = {
    "seq_list_filter_file": lambda file: {**STATIC, "seq_list_filter_file": file},
    "seq_order_seq_lens_file": lambda file: {
        **STATIC, "seq_ordering": "sorted", "seq_order_seq_lens_file": file,
    },
    "MetaDataset.seq_list_file": lambda file: {
        "class": "MetaDataset", "datasets": {"a": STATIC}, "data_map": {"data": ("a", "data")}, "seq_list_file": file,
    },
    "MetaDataset.seq_lens_file": lambda file: {
        "class": "MetaDataset", "datasets": {"a": STATIC}, "data_map": {"data": ("a", "data")}, "seq_list_file": file,
        "seq_lens_file": file,
    },
    "OggZipDataset.segment_file": lambda file: {"class": "OggZipDataset", "path": "x.zip", "audio": None,
        "targets": None,
        "segment_file": file,
    },
    "DistributeFilesDataset.files": lambda file: {
        "class": "DistributeFilesDataset", "files": file, "get_sub_epoch_dataset": lambda files: STATIC,
        "partition_epoch": 1,
    },
    "ClusteringDataset.cluster_map_file": lambda file: {
        "class": "ClusteringDataset", "dataset": STATIC, "cluster_map_file": file, "n_clusters": 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("option", DATASETS)
def test_no_option_runs_code(option, planted):
    with pytest.raises(UserError) as info:
        init_dataset(DATASETS[option](planted)).init_seq_order(epoch=1)
    assert "posix.system" in str(info.value)
    assert "list.pkl" in str(info.value)


def test_message(planted):
    with pytest.raises(UserError) as info:
        load_python_data(planted, where="HDFDataset 'train'")
    assert str(info.value) == (
        "HDFDataset 'train': is no pickle of plain data: it contains an object of posix.system.\n  File: list.pkl"
    )
