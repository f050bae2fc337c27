"""Signals end a training in time, with the conventional exit status, without tracebacks, and with its workers."""

import os
import signal
import time

import pytest

from tests.tf.engine.small_config import TEXT, start_process

LIMIT_S = 10.0
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


def start(server, folder, text):
    (folder / "model").mkdir()
    (folder / "train.config").write_text(TEXT + text)
    return server.start(folder, "train.config")


def end(run, number):
    """:return: seconds that it took"""
    start_s = time.monotonic()
    os.kill(run.pid, number)
    assert run.wait(60) == 128 + number, run.output
    return time.monotonic() - start_s


def assert_all_end(run):
    deadline_s = time.monotonic() + LIMIT_S
    while left := run.processes():
        assert time.monotonic() < deadline_s, f"processes are left: {left}"
        time.sleep(0.05)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_training_with_workers_ends(name, fork_server, tmp_path):
    number = getattr(signal, name)
    run = start(fork_server, tmp_path, WORKERS)
    assert run.wait_for("train epoch 1, step 1,", 60), run.output
    assert len(run.workers()) == 2
    if name != "SIGTERM":  # some send it to all processes
        for pid in run.workers():
            os.kill(pid, number)
    seconds = end(run, number)
    assert f"interrupted by {name} after train epoch 1, step " in run.output
    assert "Traceback" not in run.output
    assert "Error" not in run.output
    assert seconds < LIMIT_S
    assert_all_end(run)


def test_step_that_hangs_is_ended(fork_server, tmp_path):
    run = start(fork_server, tmp_path, HANGS)
    assert run.wait_for("hangs now", 60), run.output
    seconds = end(run, signal.SIGTERM)
    assert "SIGTERM came 8 s ago, and the process did not end. It is in " in run.output
    assert "Traceback" not in run.output
    assert seconds < LIMIT_S
    assert_all_end(run)


def test_stopped_worker_is_named_and_ended(fork_server, tmp_path):
    run = start(fork_server, tmp_path, WORKERS + SAYS_EARLY)
    assert run.wait_for("train epoch 1, step 1,", 60), run.output
    worker = run.workers()[0]
    os.kill(worker, signal.SIGSTOP)
    what = rf"MultiProcDataset .*, process {worker}, which was stopped \(SIGSTOP\)"
    assert run.wait_for(rf"waiting for \d s now: {what}", 60), run.output
    seconds = end(run, signal.SIGTERM)
    assert "Traceback" not in run.output
    assert seconds < LIMIT_S
    assert_all_end(run)


@pytest.mark.parametrize("moment", ["its first one", "a later one"])
def test_killed_training_leaves_no_stopped_worker(moment, fork_server, tmp_path):
    run = start(fork_server, tmp_path, WORKERS)
    if moment == "a later one":
        assert run.wait_for("train epoch 1, step 1,", 60), run.output
    deadline_s = time.monotonic() + 60
    while not (workers := run.workers()):
        assert time.monotonic() < deadline_s, run.output
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait(60) == -signal.SIGKILL
    assert_all_end(run)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("seconds", [0.3, 2.5])
def test_signal_at_start_up(name, seconds, tmp_path):
    number = getattr(signal, name)
    process = start_process(tmp_path, SECONDS_OF_STEP="0.5")  # it is not over before the signal comes
    time.sleep(seconds)
    start_s = time.monotonic()
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert time.monotonic() - start_s < LIMIT_S
    assert process.returncode in (128 + number, -number), output  # a shell says the same about both
    assert "Traceback" not in output


def test_nohup_is_respected(tmp_path):
    sends = {"SIGNAL": "SIGHUP", "SIGNAL_AT_STEP": "1"}
    process = start_process(tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN), **sends)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
