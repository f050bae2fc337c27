"""Data sets whose processes die, hang or raise: an error that names it; and the epoch goes on in another process."""

from __future__ import annotations

import contextlib
import os
import signal

import numpy
import pytest

from returnn.config import Config, set_global_config
from returnn.datasets.core import worker
from returnn.datasets.core.registry import init_dataset
from returnn.util.errors import UserError
from returnn.util.system import waiting
from tests.patience import Clock

from .cases import hdf_of_files, static, static_seqs, write_hdf
from .corpus_checks import assert_equal_seqs, seqs_of_epoch

_BAD = "tag-7"
_START = 4  # of the sequences after a restart


def bad(on_purpose):
    def raise_in_one(seq, **_kwargs):
        if str(seq.data["seq_tag"].raw_tensor) == _BAD and on_purpose:
            raise ValueError("on purpose")
        return seq

    return raise_in_one


def postprocessing(on_purpose, **options):
    return {"class": "PostprocessingDataset", "dataset": static(), "map_seq": bad(on_purpose), **options}


def multi_proc(on_purpose):
    inner = postprocessing(on_purpose)
    return {"class": "MultiProcDataset", "dataset": inner, "num_workers": 2, "buffer_size": 1}


def distribute_files(tmp_path, on_purpose):
    seqs = [{**seq, "seq_tag": numpy.array(f"tag-{i}")} for i, seq in enumerate(static_seqs())]
    files = [write_hdf(tmp_path / f"{i}.hdf", static(data=seqs[i : i + 6])) for i in (0, 6)]
    options = {"preload_next_n_sub_epochs": 1, "partition_epoch": 1, "buffer_size": 1}

    def sub_epoch(files):
        return {"class": "PostprocessingDataset", "dataset": hdf_of_files(files), "map_seq": bad(on_purpose)}

    return {"class": "DistributeFilesDataset", "files": files, "get_sub_epoch_dataset": sub_epoch, **options}


def concat_seqs(tmp_path, on_purpose):
    (tmp_path / "list.txt").write_text("".join(f"tag-{i}\n" for i in range(len(static_seqs()))))
    lengths = {f"tag-{i}": len(seq["data"]) for i, seq in enumerate(static_seqs())}
    (tmp_path / "lens.txt").write_text(repr(lengths))
    files = {"seq_list_file": str(tmp_path / "list.txt"), "seq_len_file": str(tmp_path / "lens.txt")}
    return {"class": "ConcatSeqsDataset", "dataset": multi_proc(on_purpose), **files}


CASES = {
    "MultiProcDataset": lambda _path, on_purpose: multi_proc(on_purpose),
    "PostprocessingDataset": lambda _path, on_purpose: postprocessing(on_purpose, num_workers=2, buf_size=1),
    "DistributeFilesDataset": distribute_files,
    "CombinedDataset": lambda _path, on_purpose: {
        "class": "CombinedDataset",
        "datasets": {"a": multi_proc(on_purpose)},
        "data_map": {("a", "data"): "data", ("a", "classes"): "classes"},
    },
    "ConcatSeqsDataset": concat_seqs,
}
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


FAULTS = {signal.SIGKILL: r"\(SIGKILL\)", signal.SIGSTOP: r"which was stopped \(SIGSTOP\)"}


@pytest.fixture
def pids(monkeypatch):
    """:return: of all processes of data sets, in the order of their start. Waiting for one ends soon"""
    started = []

    class Noted(worker.WorkerProcess):
        def __init__(self, *args):
            super().__init__(*args)
            started.append(self.pid)

    monkeypatch.setattr(worker, "WorkerProcess", Noted)
    set_global_config(Config({"data_wait_limit_s": 30}))
    yield started
    set_global_config(None)


def send(number, pids, monkeypatch):
    for pid in pids:
        os.kill(pid, number)
    monkeypatch.setattr(waiting, "time", Clock(lambda: number == signal.SIGSTOP))


def end(dataset, pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # else it waits until a stopped one does not end by itself
    dataset.finish_epoch(free_resources=True)


def seqs_of(dataset):
    dataset.init_seq_order(1)
    return seqs_of_epoch(dataset)


@pytest.mark.parametrize("name", CASES)
def test_death_stop_and_exception_are_told_and_an_epoch_can_go_on(name, tmp_path, pids, monkeypatch):
    dataset = init_dataset(CASES[name](tmp_path, False))
    everything = seqs_of(dataset)
    dataset.init_seq_order(1)
    assert_equal_seqs(seqs_of_epoch(dataset, _START), everything[_START:])  # as after a restart
    dataset.finish_epoch(free_resources=True)
    for number, text in FAULTS.items():
        pids.clear()
        dataset = init_dataset(CASES[name](tmp_path, False))
        dataset.init_seq_order(1)
        dataset.load_seqs(0, 2)
        with monkeypatch.context() as patch:
            send(number, pids, patch)
            with pytest.raises(UserError, match=text):
                seqs_of_epoch(dataset, 2)
            end(dataset, pids)
    dataset = init_dataset(CASES[name](tmp_path, True))
    with pytest.raises(UserError, match=r"on purpose"):
        seqs_of(dataset)
    dataset.finish_epoch(free_resources=True)


@pytest.mark.parametrize("number", FAULTS)
def test_a_fault_between_two_epochs_is_told(number, pids, monkeypatch):
    dataset = init_dataset(multi_proc(False))
    dataset.init_seq_order(1)  # asks for sequences
    send(number, pids, monkeypatch)
    with pytest.raises(UserError, match=FAULTS[number]):
        seqs_of(dataset)
    end(dataset, pids)
