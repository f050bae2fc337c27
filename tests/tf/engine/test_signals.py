"""Signals end a training in time, with the conventional exit status, without tracebacks, and with its workers."""

import os
import pathlib
import signal

import pytest

from tests.patience import PATIENCE_S, is_stopped, wait_until
from tests.tf.engine.small_config import TEXT, start_process

WORKERS = """
train = {"class": "MultiProcDataset", "num_workers": 2, "buffer_size": 5, "dataset": {
    "class": "Task12AXDataset", "num_seqs": 4000}}
del dev
num_epochs = 50
"""
SAYS_EARLY = """
from returnn.util.system import waiting
waiting.FIRST_REPORT_S = 1.0
"""
HANGS = """
import time

def hang(x):
    print("hangs now", flush=True)
    time.sleep(1000)
    return x

network["watched"]["eval"] = lambda source, **_: tf.ensure_shape(tf.numpy_function(hang, [source(0)], tf.float32),
    [None, None, 9])
"""


PATIENT = """
from returnn.util.system import end_by_signal, exit_in_time
end_by_signal.LIMIT_S = exit_in_time.LIMIT_S = 300.0  # this machine may be busy: it ends by itself
"""


def start(server, folder, text):
    (folder / "model").mkdir()
    (folder / "train.config").write_text(TEXT + text)
    return server.start(folder, "train.config")


def end(run, number):
    """Ends the run by a signal."""
    os.kill(run.pid, number)
    assert run.wait() == 128 + number, run.output


def assert_all_end(run):
    wait_until(lambda: not run.processes(), lambda: f"processes are left: {run.processes()}")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_training_with_workers_ends(name, fork_server, tmp_path):
    number = getattr(signal, name)
    run = start(fork_server, tmp_path, WORKERS + PATIENT)
    assert run.wait_for("train epoch 1, step 1,"), run.output
    assert len(run.workers()) == 2
    if name != "SIGTERM":  # some send it to all processes
        for pid in run.workers():
            os.kill(pid, number)
    end(run, number)
    assert f"interrupted by {name} after train epoch 1, step " in run.output
    assert "Traceback" not in run.output
    assert "Error" not in run.output
    assert_all_end(run)


def test_step_that_hangs_is_ended(fork_server, tmp_path):
    run = start(fork_server, tmp_path, HANGS)
    assert run.wait_for("hangs now"), run.output
    end(run, signal.SIGTERM)
    assert "SIGTERM came 8 s ago, and the process did not end. It is in " in run.output
    assert "Traceback" not in run.output
    assert_all_end(run)


def test_stopped_worker_is_named_and_ended(fork_server, tmp_path):
    run = start(fork_server, tmp_path, WORKERS + SAYS_EARLY + PATIENT)
    assert run.wait_for("train epoch 1, step 1,"), run.output
    worker = run.workers()[0]
    os.kill(worker, signal.SIGSTOP)
    what = rf"MultiProcDataset .*, process {worker}, which was stopped \(SIGSTOP\)"
    assert run.wait_for(rf"waiting for \d+ s now: {what}"), run.output
    end(run, signal.SIGTERM)
    assert "Traceback" not in run.output
    assert_all_end(run)


@pytest.mark.parametrize("moment", ["its first one", "a later one"])
def test_killed_training_leaves_no_stopped_worker(moment, fork_server, tmp_path):
    run = start(fork_server, tmp_path, WORKERS + PATIENT)
    if moment == "a later one":
        assert run.wait_for("train epoch 1, step 1,"), run.output
    wait_until(run.workers, lambda: run.output)
    stopped = run.workers()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(is_stopped(pid) for pid in stopped))  # on a busy machine the signal takes its time
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert_all_end(run)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("loaded", ["numpy", "tensorflow"])
def test_signal_at_start_up(name, loaded, tmp_path):
    number = getattr(signal, name)
    process = start_process(tmp_path, SECONDS_OF_STEP="0.5")  # it is not over before the signal comes
    maps = f"/proc/{process.pid}/maps"
    wait_until(lambda: process.poll() is not None or f"/{loaded}/" in pathlib.Path(maps).read_text())
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (128 + number, -number), output  # a shell says the same about both
    assert "Traceback" not in output


def test_nohup_is_respected(tmp_path):
    sends = {"SIGNAL": "SIGHUP", "SIGNAL_AT_STEP": "1"}
    process = start_process(tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN), **sends)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
