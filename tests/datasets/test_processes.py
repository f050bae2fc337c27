"""Data sets with processes of their own, and postprocessing."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import Counter

import numpy as np
import pytest

from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.postprocessing import LaplaceOrdering, Sequential
from returnn.tensor import Dim, TensorDict
from returnn.util.errors import ConfigError, UserError
from returnn.util.system.forked import results_of_processes

from .cases import hdf, static, static_seqs, write_hdf
from .corpus_checks import assert_equal_seqs, seqs_of_epoch

DUMMY = {"class": "DummyDatasetMultipleSequenceLength", "input_dim": 3, "output_dim": 5, "num_seqs": 11}


def seqs(dataset, epoch=1):
    dataset.init_seq_order(epoch)
    return seqs_of_epoch(dataset)


@pytest.fixture
def multi_proc():
    datasets = []

    def make(dataset, **options):
        datasets.append(init_dataset({"class": "MultiProcDataset", "dataset": dataset, "num_workers": 2, **options}))
        return datasets[-1]

    yield make
    for dataset in datasets:
        dataset.finish_epoch(free_resources=True)


def test_with_processes_it_is_the_same(multi_proc):
    options = {**DUMMY, "seq_ordering": "random", "partition_epoch": 2}
    plain = init_dataset(options)
    dataset = multi_proc(options, buffer_size=3)
    for epoch in (1, 2, 1):
        assert_equal_seqs(seqs(dataset, epoch), seqs(plain, epoch))
        assert dataset.num_seqs == plain.num_seqs
    assert dataset.get_all_tags() == plain.get_all_tags()
    assert dataset.get_total_num_seqs() == 11
    for key in dataset.get_data_keys():
        for method in ("get_data_dim", "get_data_dtype", "get_data_shape", "is_data_sparse", "get_num_axes"):
            assert getattr(dataset, method)(key) == getattr(plain, method)(key)
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 2)
    assert len(dataset.get_all_tags()) == 11  # in between
    assert_equal_seqs(seqs_of_epoch(dataset, 2), seqs(plain)[2:])
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 2)  # and leave the rest
    dataset.init_seq_order(1, seq_list=["seq-4", "seq-2", "seq-9"])
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == ["seq-4", "seq-2", "seq-9"]
    assert_equal_seqs(seqs_of_epoch(dataset, 1), seqs_of_epoch(dataset)[1:])
    dataset.finish_epoch(free_resources=True)
    assert_equal_seqs(seqs(dataset), seqs(plain))


def test_each_process_can_choose_its_part(multi_proc):
    dataset = multi_proc(DUMMY, buffer_size=1, sharding_method="dedicated")
    parts = [[tag for tag, _ in seqs(init_dataset({**DUMMY, "_num_shards": 2, "_shard_index": i}))] for i in (0, 1)]
    tags = [tag for tag, _ in seqs(dataset)]
    assert [tags[0::2], tags[1::2]] == parts


def test_functions_of_a_config_can_be_used_in_processes(multi_proc):
    with pytest.warns(DeprecationWarning, match="fork") if _fork_warns() else contextlib.nullcontext():
        dataset = multi_proc({"class": "VariableDataset", "get_dataset": lambda epoch: DUMMY}, buffer_size=1)
    assert len(seqs(dataset)) == 11


def _fork_warns():
    return sys.version_info >= (3, 12) and threading.active_count() > 1


def test_error_in_a_process_is_the_same_error(multi_proc):
    data = static_seqs()
    data[2]["data"][0] = np.nan
    dataset = multi_proc(static(data=data, name="dev"), buffer_size=2)
    with pytest.raises(DataError, match=r"StaticDataset 'dev': data key 'data' of sequence 'tag-2': nan in 3 of"):
        seqs(dataset)


def test_error_in_making_the_dataset(multi_proc):
    with pytest.raises(ConfigError, match="there is no option 'num_seq'"):
        multi_proc({**DUMMY, "num_seq": 3}, buffer_size=1)


def test_killed_process_is_told(multi_proc):
    dataset = multi_proc(DUMMY, buffer_size=1)
    dataset.init_seq_order(1)
    os.kill(dataset._workers[1]._process.pid, signal.SIGKILL)
    dataset._workers[1]._process.how_it_ended()
    with pytest.raises(UserError, match=r"process 1: its process has died with exit code -9 \(SIGKILL\)\.\n"):
        seqs_of_epoch(dataset)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 0}, "option 'num_workers' has to be a positive number"),
        ({"sharding_method": "x"}, "there is no sharding_method 'x'.\n  Possible: dedicated, seq_order."),
        ({"dataset": "Task12AXDataset:num_seqs=3"}, "option 'dataset' has to be a dict"),
    ],
)
def test_wrong_options_of_processes(options, message):
    with pytest.raises(ConfigError) as info:
        init_dataset({"class": "MultiProcDataset", "dataset": DUMMY, "num_workers": 1, "buffer_size": 1, **options})
    assert message in str(info.value)


# Files.


def write_files(tmp_path, num_files=5):
    files = []
    for i in range(num_files):
        data = [{**seq, "seq_tag": np.array(f"file-{i}-{seq['seq_tag']}")} for seq in static_seqs(2 + i)]
        files.append(write_hdf(tmp_path / f"{i}.hdf", static(data=data)))
    return files


def hdf_of_files(files):
    return {"class": "HDFDataset", "files": files}


def distrib_files(files, **options):
    options = {"files": files, "get_sub_epoch_dataset": hdf_of_files, "partition_epoch": 2, **options}
    return init_dataset({"class": "DistributeFilesDataset", **options})


@pytest.mark.parametrize("preload", [0, 1])
@pytest.mark.parametrize("seq_ordering", ["default", "random"])
def test_files_are_distributed_over_the_epochs(preload, seq_ordering, tmp_path):
    files = write_files(tmp_path)
    everything = dict(seqs(init_dataset(hdf_of_files(files))))
    dataset = distrib_files(files, preload_next_n_sub_epochs=preload, seq_ordering=seq_ordering)
    full_epochs = []
    for epoch in (1, 3):
        parts = [seqs(dataset, epoch), seqs(dataset, epoch + 1)]
        assert all(parts)
        full_epochs.append(parts[0] + parts[1])
        assert Counter(tag for tag, _ in full_epochs[-1]) == Counter(everything.keys())
        assert_equal_seqs(full_epochs[-1], [(tag, everything[tag]) for tag, _ in full_epochs[-1]])
    assert_equal_seqs(seqs(dataset, 1), full_epochs[0][: len(seqs(dataset, 1))])
    dataset.finish_epoch(free_resources=True)


def test_groups_of_files_stay_together(tmp_path):
    files = write_files(tmp_path, 4)
    dataset = distrib_files(
        [(files[0], files[1]), (files[2], files[3])],
        get_sub_epoch_dataset=lambda groups: hdf_of_files([file for group in groups for file in group]),
        preload_next_n_sub_epochs=0,
    )
    assert dataset.get_files_of_epoch(1) == [(files[0], files[1])]
    assert {tag.split("-")[1] for tag, _ in seqs(dataset, 2)} == {"2", "3"}


@pytest.mark.parametrize("distrib_shard_files", [False, True])
def test_shards_of_files(distrib_shard_files, tmp_path):
    files = write_files(tmp_path)
    options = {"preload_next_n_sub_epochs": 0, "distrib_shard_files": distrib_shard_files}
    tags = []
    for shard in (0, 1):
        dataset = distrib_files(files, **options, _num_shards=2, _shard_index=shard)
        tags += [tag for epoch in (1, 2) for tag, _ in seqs(dataset, epoch)]
    assert Counter(tags) == Counter(tag for tag, _ in seqs(init_dataset(hdf_of_files(files))))


def test_list_of_files_in_a_file(tmp_path):
    files = write_files(tmp_path, 2)
    (tmp_path / "files.txt").write_text("\n".join(files))
    assert distrib_files(str(tmp_path / "files.txt"), preload_next_n_sub_epochs=0).files == files


# Forks, as the workers of a data loader are.


def of_fork(function):
    (result,) = results_of_processes(function)
    return result


def test_a_fork_reads_on_in_its_own_processes(multi_proc):
    options = {**DUMMY, "seq_ordering": "random"}
    plain = init_dataset(options)
    dataset = multi_proc(options, buffer_size=2)
    for epoch in (1, 2):
        dataset.init_seq_order(epoch)
        dataset.load_seqs(0, 3)
        assert_equal_seqs(of_fork(lambda: seqs_of_epoch(dataset, 3)), seqs(plain, epoch)[3:])
        assert_equal_seqs(of_fork(lambda: seqs(dataset, 3)), seqs(plain, 3))
        assert of_fork(lambda: len(dataset.get_all_tags())) == 11
        assert_equal_seqs(seqs_of_epoch(dataset, 3), seqs(plain, epoch)[3:])


def test_a_fork_that_drops_its_copy_leaves_the_processes_alone(multi_proc):
    dataset = multi_proc(DUMMY, buffer_size=2)
    dataset.init_seq_order(1)
    of_fork(lambda: dataset.finish_epoch(free_resources=True))
    assert len(seqs_of_epoch(dataset)) == 11


def test_a_fork_reads_files_in_its_own_processes(tmp_path):
    files = write_files(tmp_path)
    dataset, plain = (distrib_files(files, preload_next_n_sub_epochs=preload) for preload in (1, 0))
    for epoch in (1, 2, 3):
        dataset.init_seq_order(epoch)
        assert_equal_seqs(of_fork(lambda: seqs_of_epoch(dataset)), seqs(plain, epoch))
    dataset.finish_epoch(free_resources=True)


def test_a_daemon_can_have_processes(multi_proc):
    dataset = multi_proc({"class": "VariableDataset", "get_dataset": lambda epoch: DUMMY}, buffer_size=1)
    dataset.init_seq_order(1)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=lambda: there.send(len(seqs_of_epoch(dataset))), daemon=True)
    process.start()
    there.close()
    assert here.recv() == 11
    process.join(10)
    assert process.exitcode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"files": []}, "option 'files' is empty"),
        ({"partition_epoch": 6}, "5 files (or groups) are too few for 6 parts"),
        (
            {"seq_ordering": "laplace"},
            "option 'seq_ordering': 'laplace' is not possible for files.\n  Possible: default",
        ),
        ({"sharding_fix": True}, "option 'sharding_fix': only None is possible"),
    ],
)
def test_wrong_options_for_files(options, message, tmp_path):
    with pytest.raises(ConfigError) as info:
        distrib_files(**{"files": write_files(tmp_path), **options})
    assert message in str(info.value)


# Postprocessing.


def add_noise(data: TensorDict, *, rng, seq_idx, epoch, **_kwargs) -> TensorDict:
    assert seq_idx >= 0
    assert epoch >= 1
    features = data.data["data"]
    features.raw_tensor = (features.raw_tensor + rng.normal(size=features.raw_tensor.shape)).astype("float32")
    return data


def first_feature(data: TensorDict, **_kwargs) -> TensorDict:
    out = TensorDict(
        {
            "data": {"shape": (None, 1), "dtype": "float32", "batch_dim_axis": None},
            "sizes": {"shape": (None,), "dtype": "int32", "batch_dim_axis": None},
        }
    )
    out.data["data"].raw_tensor = data.data["data"].raw_tensor[:, :1]
    out.data["sizes"].raw_tensor = np.array(data.data["classes"].raw_tensor.shape, "int32")
    return out


def twice(stream, **_kwargs):
    for data in stream:
        yield data
        yield data


def postprocessing(**options):
    return init_dataset({"class": "PostprocessingDataset", "dataset": static(), **options})


def test_map_of_each_sequence():
    dataset = postprocessing(map_seq=add_noise, seq_ordering="random", partition_epoch=2)
    plain = {str(seq["seq_tag"]): seq for seq in static_seqs()}
    first = seqs(dataset)
    assert len(first) == dataset.num_seqs == 6
    for tag, data in first:
        assert not np.array_equal(data["data"], plain[tag]["data"])
        np.testing.assert_array_equal(data["classes"], plain[tag]["classes"])
    assert_equal_seqs(seqs(dataset), first)
    assert dataset.supports_random_access
    assert_equal_seqs(seqs_of_epoch(dataset, 2), first[2:])


def test_map_to_other_keys():
    outputs = {"data": {"dim": 1}, "sizes": {"dim": None, "shape": (None,), "dtype": "int32"}}
    dataset = postprocessing(map_seq=first_feature, map_outputs=outputs)
    assert dataset.get_data_keys() == ["data", "sizes"]
    assert dataset.get_data_dim("data") == 1
    tag, data = seqs(dataset)[3]
    assert tag == "tag-3"
    assert data["data"].shape[1] == 1
    assert data["sizes"].tolist() == [len(static_seqs()[3]["classes"])]


def test_dims_of_outputs_by_dims_alone():
    """Of a tensor by its dims, nothing says which one is that of the features: it is the last one."""
    time, labels = Dim(None, name="time"), Dim(7, name="labels")
    outputs = {
        "data": {"dims": [time, Dim(2, name="features")], "dtype": "float32"},
        "classes": {"dims": [time], "sparse_dim": labels, "dtype": "int32"},
        "speaker": {"dims": [], "dtype": "int32"},
    }
    dataset = postprocessing(map_seq=first_feature, map_outputs=outputs)
    assert dataset.num_outputs == {"data": (2, 2), "classes": (7, 1), "speaker": (1, 0)}


def test_map_of_the_stream():
    dataset = postprocessing(map_seq_stream=twice)
    tags = [tag for tag, _ in seqs(dataset)]
    assert tags == [f"tag-{i // 2}" for i in range(22)]
    assert_equal_seqs(seqs_of_epoch(dataset, 5), seqs_of_epoch(dataset)[5:])
    with pytest.raises(NotImplementedError):
        dataset.get_total_num_seqs()


def every_second(seqs_of_stream, **_kwargs):
    return itertools.islice(seqs_of_stream, 0, None, 2)


def renamed(seqs_of_stream, **_kwargs):
    for seq in seqs_of_stream:
        seq.data["seq_tag"].raw_tensor = np.array(f"new-{seq.data['seq_tag'].raw_tensor}")
        yield seq


def test_stream_that_preserves_the_number_of_sequences():
    dataset = postprocessing(map_seq_stream=renamed, map_seq_stream_preserves_num_seqs=True)
    dataset.init_seq_order(1)
    assert dataset.num_seqs == dataset.get_total_num_seqs() == 11
    assert [tag for tag, _ in seqs(dataset)] == [f"new-tag-{i}" for i in range(11)]
    dataset = postprocessing(map_seq_stream=LaplaceOrdering(4), map_seq_stream_preserves_num_seqs=False)
    dataset.init_seq_order(1)
    for get in (dataset.get_total_num_seqs, lambda: dataset.num_seqs):
        with pytest.raises(NotImplementedError):
            get()
    for function, found in [(every_second, "only 6"), (twice, "more")]:
        with pytest.raises(ConfigError, match=f"of 11 sequences, the function makes {found}"):
            seqs(postprocessing(map_seq_stream=function, map_seq_stream_preserves_num_seqs=True))
    with pytest.raises(ConfigError, match="'map_seq' makes one sequence of each"):
        postprocessing(map_seq=add_noise, map_seq_stream_preserves_num_seqs=False)


def test_laplace_order_of_a_stream():
    dataset = postprocessing(map_seq_stream=LaplaceOrdering(4))
    assert dataset.get_total_num_seqs() == 11
    lens = [len(data["data"]) for _, data in seqs(dataset)]
    assert lens[:4] == sorted(lens[:4])
    assert lens[4:8] == sorted(lens[4:8], reverse=True)
    assert sorted(lens) == sorted(len(seq["data"]) for seq in static_seqs())


def test_several_functions():
    both = Sequential(LaplaceOrdering(4), LaplaceOrdering(20))
    assert both.preserves_num_seqs
    assert not Sequential(LaplaceOrdering(4), twice).preserves_num_seqs
    lens = [len(data["data"]) for _, data in seqs(postprocessing(map_seq_stream=both))]
    assert lens == sorted(lens)
    once = dict(seqs(postprocessing(map_seq=add_noise)))["tag-0"]["data"]
    more = dict(seqs(postprocessing(map_seq=Sequential(add_noise, add_noise))))["tag-0"]["data"]
    assert not np.array_equal(more, once)


def test_postprocessing_in_processes_is_the_same():
    plain = postprocessing(map_seq=add_noise)
    dataset = postprocessing(map_seq=add_noise, num_workers=2, buf_size=2)
    assert_equal_seqs(seqs(dataset), seqs(plain))
    dataset.finish_epoch(free_resources=True)


def test_wrong_functions():
    with pytest.raises(ConfigError, match="exactly one of 'map_seq' and 'map_seq_stream' is needed"):
        postprocessing()
    dataset = postprocessing(map_seq=lambda data, **_kwargs: data.data)
    with pytest.raises(
        ConfigError, match="'map_seq': the function gives a dict for sequence 'tag-0', expected a TensorDict"
    ):
        seqs(dataset)


def without_rest(seq):
    return seq


def with_all(seq, *, epoch, seq_idx, num_seqs, rng):
    return seq


def test_functions_that_cannot_be_called():
    line = without_rest.__code__.co_firstlineno
    message = (
        rf"'map_seq': 'without_rest' cannot be called: .*'epoch'.\n.* 4 keywords, .*"
        rf"def without_rest\(seq, \*, epoch, seq_idx, num_seqs, rng, \*\*kwargs\).\n  It is in {__file__}, line {line}."
    )
    for function in (without_rest, Sequential(with_all, without_rest)):
        with pytest.raises(ConfigError, match=message):
            postprocessing(map_seq=function)
    with pytest.raises(ConfigError, match="'map_seq_stream': 'without_rest' cannot be called: "):
        postprocessing(map_seq_stream=without_rest)
    with pytest.raises(ConfigError, match=r"'map_seq': has to be a function, not 3\."):
        postprocessing(map_seq=3)
    postprocessing(map_seq=with_all)


def test_result_of_postprocessing_is_checked(tmp_path):
    def to_nan(data, **_kwargs):
        data.data["data"].raw_tensor = data.data["data"].raw_tensor * np.nan
        return data

    dataset = init_dataset({"class": "PostprocessingDataset", "dataset": hdf(tmp_path), "map_seq": to_nan})
    with pytest.raises(DataError, match="PostprocessingDataset: data key 'data' of sequence 'tag-0': nan in"):
        seqs(dataset)


SCRIPT = """
from returnn.datasets.basic import init_dataset

def map_seq(seq, **_):
    return seq

words = {"class": "Task12AXDataset", "num_seqs": 4}
mapped = {"class": "PostprocessingDataset", "map_seq": map_seq, "dataset": words}
dataset = init_dataset({"class": "MultiProcDataset", "num_workers": 2, "buffer_size": 2, "dataset": mapped})
dataset.init_seq_order(epoch=1)
dataset.load_seqs(0, 4)
print(dataset.get_tag(3))
dataset.finish_epoch(free_resources=True)
"""


def test_functions_of_a_notebook_go_to_other_processes():
    shown = subprocess.run([sys.executable, "-"], input=SCRIPT, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "seq-3"
