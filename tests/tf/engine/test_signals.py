"""Signals end a training in time, with the conventional exit status, without tracebacks, and with its workers."""

import os
import re
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
HANGS = """
import time

def hang(x):
    print("hangs now", flush=True)
    time.sleep(1000)
    return x

network["watched"]["eval"] = lambda source, **_: tf.ensure_shape(tf.numpy_function(hang, [source(0)], tf.float32),
    [None, None, 9])
"""


def wait_for(process, text):
    """:return: what the process has printed up to this text"""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(text, line):
            return "".join(lines)
    raise AssertionError(f"no {text!r} in:\n{''.join(lines)}")


def end(process, number):
    """:return: exit status, output, and seconds that it took"""
    start = time.monotonic()
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output, time.monotonic() - start


def session_of(process):
    """:return: processes of its session: all that it has started"""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == process.pid and fields[0] != "Z":
            found.append(int(pid))
    return found


def wait_until(condition, what, limit_s=LIMIT_S):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def workers_of(process):
    pids = []
    for pid in session_of(process):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if pid != process.pid and b"spawn_main" in file.read():
                pids.append(pid)
    return pids


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_training_with_workers_ends(name, tmp_path):
    number = getattr(signal, name)
    process = start_process(tmp_path, TEXT + WORKERS)
    wait_for(process, "train epoch 1, step 1,")
    assert len(workers_of(process)) == 2
    if name == "SIGINT":  # at a terminal, all of them get it
        for pid in workers_of(process):
            os.kill(pid, number)
    status, output, seconds = end(process, number)
    assert status == 128 + number, output
    assert f"interrupted by {name} after train epoch 1, step " in output
    assert "Traceback" not in output
    assert "Error" not in output
    assert seconds < LIMIT_S
    wait_until(lambda: not session_of(process), "processes are left")


def test_step_that_hangs_is_ended(tmp_path):
    process = start_process(tmp_path, TEXT + HANGS)
    wait_for(process, "hangs now")
    status, output, seconds = end(process, signal.SIGTERM)
    assert status == 143, output
    assert "SIGTERM came 8 s ago, and the process did not end. It is in " in output
    assert "Traceback" not in output
    assert seconds < LIMIT_S
    wait_until(lambda: not session_of(process), "processes are left")


def test_stopped_worker_is_named_and_ended(tmp_path):
    process = start_process(tmp_path, TEXT + WORKERS)
    wait_for(process, "train epoch 1, step 1,")
    workers = workers_of(process)
    os.kill(workers[0], signal.SIGSTOP)
    output = wait_for(process, "waiting for 1. s now: MultiProcDataset")
    assert re.search(rf"process {workers[0]}, which was stopped \(SIGSTOP\)", output)
    status, output, seconds = end(process, signal.SIGTERM)
    assert (status, "Traceback" in output) == (143, False), output
    assert seconds < LIMIT_S
    wait_until(lambda: not session_of(process), "processes are left")


def test_killed_training_leaves_no_stopped_worker(tmp_path):
    process = start_process(tmp_path, TEXT + WORKERS)
    wait_for(process, "train epoch 1, step 1,")
    for pid in workers_of(process):
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    wait_until(lambda: not workers_of(process), "stopped workers are left")
    process.communicate()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("seconds", [0.3, 2.5])
def test_signal_at_start_up(name, seconds, tmp_path):
    number = getattr(signal, name)
    process = start_process(tmp_path)
    time.sleep(seconds)
    status, output, seconds = end(process, number)
    assert status in (128 + number, -number), output  # a shell says the same about both
    assert "Traceback" not in output
    assert seconds < LIMIT_S


def test_nohup_is_respected(tmp_path):
    process = start_process(tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for(process, "train epoch 1, step 1,")
    status, output, _ = end(process, signal.SIGHUP)
    assert status == 0, output
