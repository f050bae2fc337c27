"""One small example of each data set class, by its name. The properties are tested on all of them."""

from __future__ import annotations

import gzip
import pickle

import h5py
import numpy as np

from returnn.datasets.core.registry import init_dataset
from returnn.datasets.hdf import HDFDatasetWriter
from returnn.datasets.map import FromListDataset
from returnn.datasets.postprocessing import LaplaceOrdering
from tests.datasets.corpus_cases import CORPUS_CASES

NUM_SEQS = 11


def static_seqs(num_seqs=NUM_SEQS):
    rng = np.random.RandomState(3)
    seqs = []
    for i in range(num_seqs):
        num_frames = int(rng.randint(2, 9))
        seqs.append(
            {
                "data": rng.normal(size=(num_frames, 3)).astype("float32"),
                "classes": rng.randint(0, 5, size=num_frames // 2 + 1).astype("int32"),
                "seq_tag": np.array(f"tag-{i}"),
            }
        )
    return seqs


def static(**options):
    return {"class": "StaticDataset", "data": static_seqs(), "output_dim": {"classes": (5, 1)}, **options}


def write_hdf(path, dataset_dict=None, epoch=1):
    if not path.exists():
        writer = HDFDatasetWriter(str(path))
        writer.dump_from_dataset(init_dataset(dataset_dict or static()), epoch=epoch, use_progress_bar=False)
        writer.close()
    return str(path)


def hdf(tmp_path, **options):
    return {"class": "HDFDataset", "files": [write_hdf(tmp_path / "static.hdf")], **options}


def two_hdf(tmp_path):
    other = {"class": "DummyDataset", "input_dim": 3, "output_dim": 5, "num_seqs": 4, "seq_len": 3}
    return {
        "class": "HDFDataset",
        "files": [write_hdf(tmp_path / "static.hdf"), write_hdf(tmp_path / "dummy.hdf", other)],
    }


def write_streams(path):
    rng = np.random.RandomState(5)
    if path.exists():
        return str(path)
    names = [f"tag-{i}" for i in range(NUM_SEQS)]
    with h5py.File(path, "w") as file:
        file["seq_names"] = np.array(names, dtype="S")
        for stream, parser in (("features", "feature_sequence"), ("words", "sparse"), ("align", "segment_alignment")):
            group = file.create_group(f"streams/{stream}")
            group.attrs["parser"] = parser
            if parser != "feature_sequence":
                group["feature_names"] = np.array(["a", "b", "c"], dtype="S")
            for i, name in enumerate(names):
                data = {
                    "features": rng.normal(size=(2 + i % 4, 3)),
                    "words": [i % 3],
                    "align": [(i % 3, 1 + i % 2), (1, 2)],
                }
                group[f"data/{name}"] = data[stream]
    return str(path)


def _meta(tmp_path):
    features = {"class": "MapDatasetWrapper", "map_dataset": make_map_dataset}
    return {
        "class": "MetaDataset",
        "datasets": {"hdf": hdf(tmp_path), "static": static(), "map": features},
        "data_map": {"data": ("static", "data"), "classes": ("hdf", "classes"), "extra": ("map", "data")},
        "seq_order_control_dataset": "static",
    }


def _meta_seq_list(tmp_path):
    path = tmp_path / "seqs.pkl"
    path.write_bytes(pickle.dumps({"hdf": [f"tag-{i}" for i in range(8)], "dummy": [f"seq-{i}" for i in range(8)]}))
    lens = tmp_path / "lens.txt"
    lens.write_text(repr({f"tag-{i}": {"data": 5 + i * 7 % 3} for i in range(8)}))
    dummy = {"class": "DummyDataset", "input_dim": 2, "output_dim": 3, "num_seqs": 20}
    return {
        "class": "MetaDataset",
        "datasets": {"hdf": hdf(tmp_path), "dummy": dummy},
        "data_map": {"data": ("hdf", "data"), "classes": ("dummy", "classes")},
        "seq_list_file": str(path),
        "seq_lens_file": str(lens),
    }


def _combined(tmp_path):
    return {
        "class": "CombinedDataset",
        "datasets": {
            "hdf": hdf(tmp_path),
            "dummy": {"class": "DummyDataset", "input_dim": 3, "output_dim": 5, "num_seqs": 4},
        },
        "data_map": {
            ("hdf", "data"): "data",
            ("hdf", "classes"): "words",
            ("dummy", "data"): "data",
            ("dummy", "classes"): "classes",
        },
    }


def _concat(tmp_path):
    other = {"class": "DummyDataset", "input_dim": 3, "output_dim": 5, "num_seqs": 4}
    return {"class": "ConcatDataset", "datasets": [hdf(tmp_path), other]}


def _concat_seqs(tmp_path):
    seqs = static_seqs()
    groups = [(0, 1), (2,), (3, 4, 5), (6, 7), (8, 9, 10)]
    (tmp_path / "list.txt").write_text("".join(";".join(f"tag-{i}" for i in group) + "\n" for group in groups))
    (tmp_path / "part-lens.txt").write_text(repr({f"tag-{i}": len(seq["data"]) for i, seq in enumerate(seqs)}))
    return {
        "class": "ConcatSeqsDataset",
        "dataset": static(),
        "seq_list_file": str(tmp_path / "list.txt"),
        "seq_len_file": str(tmp_path / "part-lens.txt"),
    }


def _clustering(tmp_path):
    (tmp_path / "clusters.txt").write_text("".join(f"tag-{i} {i % 3}\n" for i in range(NUM_SEQS)))
    return {
        "class": "ClusteringDataset",
        "dataset": static(),
        "cluster_map_file": str(tmp_path / "clusters.txt"),
        "n_clusters": 3,
    }


def _numpy_dump(tmp_path):
    for i, seq in enumerate(static_seqs()):
        num_frames = len(seq["data"])
        with gzip.open(tmp_path / f"{i}.data.txt.gz", "wt") as file:
            np.savetxt(file, seq["data"])
        with gzip.open(tmp_path / f"{i}.targets.txt.gz", "wt") as file:
            np.savetxt(file, np.arange(num_frames) % 5, fmt="%i")
    return {"class": "NumpyDumpDataset", "prefix": f"{tmp_path}/", "num_outputs": 5}


def double_features(data, **_kwargs):
    features = data.data["data"]
    features.raw_tensor = features.raw_tensor * 2
    return data


def hdf_of_files(files):
    return {"class": "HDFDataset", "files": files}


def _distribute_files(tmp_path):
    files = []
    for i in range(3):
        data = [{**seq, "seq_tag": np.array(f"file-{i}-{seq['seq_tag']}")} for seq in static_seqs(4 + i)]
        files.append(write_hdf(tmp_path / f"{i}.hdf", static(data=data)))
    return {
        "class": "DistributeFilesDataset",
        "files": files,
        "get_sub_epoch_dataset": hdf_of_files,
        "partition_epoch": 1,
        "preload_next_n_sub_epochs": 0,
    }


def make_map_dataset():
    data = [{"data": np.full((i % 4 + 1, 2), i, "float32")} for i in range(NUM_SEQS)]
    dataset = FromListDataset(data, sort_data_key="data", data_types={"data": {"dim": 2}})
    dataset.get_seq_tag = lambda seq_idx: f"tag-{seq_idx}"
    return dataset


def get_dataset_of_epoch(epoch, **_kwargs):
    return static(seq_ordering="random", fixed_random_seed=epoch)


def _streams(tmp_path, cls):
    return {"class": cls, "files": [write_streams(tmp_path / "streams.hdf")], "input_stream_name": "features"}


_GENERATED = {
    "DummyDataset": {"input_dim": 3, "output_dim": 5},
    "DummyDatasetMultipleSequenceLength": {"input_dim": 3, "output_dim": 5},
    "DummyDatasetMultipleDataKeys": {"output_dim": {"data": 3, "x": 2}, "data_keys": ["data", "x"], "seq_len": 4},
    "DummyGenericDataset": {
        "data_template": {
            "data": {"dim": 3},
            "classes": {"dim": 5, "sparse": True},
            "image": {"shape": (None, None, 2)},
        }
    },
    "CopyTaskDataset": {"nsymbols": 4, "minlen": 2, "maxlen": 6},
    "Task12AXDataset": {},
    "TaskEpisodicCopyDataset": {},
    "TaskNumberBaseConvertDataset": {},
    "TaskVariableAssignmentDataset": {},
    "TaskXmlModelingDataset": {},
}

CASES = {
    **{
        name: (lambda _tmp_path, name=name, options=options: {"class": name, "num_seqs": NUM_SEQS, **options})
        for name, options in _GENERATED.items()
    },
    "StaticDataset": lambda _tmp_path: static(),
    "HDFDataset": hdf,
    "HDFDataset, two files": two_hdf,
    "HDFDataset, cached": lambda tmp_path: hdf(tmp_path, cache_byte_size=300),
    "HDFDataset, window": lambda tmp_path: hdf(tmp_path, window=3),
    "NextGenHDFDataset": lambda tmp_path: _streams(tmp_path, "NextGenHDFDataset"),
    "SiameseHDFDataset": lambda tmp_path: {**_streams(tmp_path, "SiameseHDFDataset"), "fixed_random_seed": 1},
    "MetaDataset": _meta,
    "MetaDataset, list": _meta_seq_list,
    "CombinedDataset": _combined,
    "ConcatDataset": _concat,
    "ConcatSeqsDataset": _concat_seqs,
    "ClusteringDataset": _clustering,
    "ChunkShuffleDataset": lambda tmp_path: {
        "class": "ChunkShuffleDataset",
        "dataset": hdf(tmp_path, chunking={"data": 4}),
        "chunk_shuffle_cache": 5,
    },
    "MultiEpochDataset": lambda tmp_path: {
        "class": "MultiEpochDataset",
        "dataset": hdf(tmp_path, partition_epoch=3),
        "multi_epoch": 2,
    },
    "VariableDataset": lambda _tmp_path: {"class": "VariableDataset", "get_dataset": get_dataset_of_epoch},
    "AnythingDataset": lambda _tmp_path: {
        "class": "AnythingDataset",
        "data_keys": {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}},
    },
    "MapDatasetWrapper": lambda _tmp_path: {"class": "MapDatasetWrapper", "map_dataset": make_map_dataset},
    "NumpyDumpDataset": _numpy_dump,
    **CORPUS_CASES,
    "PostprocessingDataset": lambda _tmp_path: {
        "class": "PostprocessingDataset",
        "dataset": static(),
        "map_seq": double_features,
    },
    "PostprocessingDataset, stream": lambda _tmp_path: {
        "class": "PostprocessingDataset",
        "dataset": static(),
        "map_seq_stream": LaplaceOrdering(4),
    },
    "DistributeFilesDataset": _distribute_files,
    "MultiProcDataset": lambda tmp_path: {
        "class": "MultiProcDataset",
        "dataset": hdf(tmp_path),
        "num_workers": 2,
        "buffer_size": 2,
    },
}

# What has no corpus of its own, or no order to choose.
WITHOUT_ORDER = {
    "ChunkShuffleDataset",
    "MultiEpochDataset",
    "AnythingDataset",
    "VariableDataset",
    "MetaDataset",
    "PostprocessingDataset, stream",
    "DistributeFilesDataset",
    "ExternSprintDataset",  # RASR decides on it
}
