"""What hangs is ended, done to real processes, which start without importing TensorFlow anew."""

import os
import signal

import pytest

from tests.tf.engine.small_config import TEXT
from tests.tf.engine.test_signals import PATIENT, SAYS_EARLY, assert_all_end

HANGING = """
import time
from returnn.datasets.generating import Task12AXDataset

class Hanging(Task12AXDataset):
    def generate_seq(self, seq_idx):
        if seq_idx == 5:
            time.sleep(1000)
        return super().generate_seq(seq_idx)

train = {"class": Hanging, "num_seqs": 20}
"""
FAILING = """
class Failing(Hanging):
    def generate_seq(self, seq_idx):
        raise KeyError("my key")
"""
IN_PROCESSES = 'train = {"class": "MultiProcDataset", "num_workers": 2, "buffer_size": 2, "dataset": train}\n'


def start(server, folder, text):
    (folder / "model").mkdir()
    (folder / "train.config").write_text(TEXT + text)
    return server.start(folder, "train.config")


@pytest.mark.parametrize("more", ["", "dataset_pipeline = True\n", IN_PROCESSES])
def test_limit_ends_the_process(more, fork_server, tmp_path):
    run = start(fork_server, tmp_path, f"{HANGING}{more}data_wait_limit_s = 2\n")
    assert run.wait_for(r"error: .*(waited for|took) \d+ s"), run.output
    assert run.wait() == 1, run.output
    assert "Traceback" not in run.output
    assert_all_end(run)


def test_signal_ends_a_pipeline_that_hangs(fork_server, tmp_path):
    run = start(fork_server, tmp_path, f"{HANGING}{SAYS_EARLY}{PATIENT}dataset_pipeline = True\n")
    assert run.wait_for(r"waiting for \d+ s now: a batch of Hanging 'train', in train.config, line "), run.output
    os.kill(run.pid, signal.SIGTERM)
    assert run.wait() == 143, run.output
    assert_all_end(run)


@pytest.mark.parametrize("more", ["", IN_PROCESSES])
def test_error_of_a_class_of_the_config(more, fork_server, tmp_path):
    run = start(fork_server, tmp_path, f"{HANGING}{FAILING}train['class'] = Failing\n{more}")
    assert run.wait() == 1, run.output
    error, place = run.output.splitlines()[-2:]
    assert error.startswith("error: ")
    assert error.endswith("KeyError: 'my key'")
    assert place.startswith("  In train.config, line ")


def test_thread_of_a_user_that_does_not_end(fork_server, tmp_path):
    text = """
import threading
threading.Thread(target=time.sleep, args=(1000,), name="mine").start()
task = "nop"
"""
    run = start(fork_server, tmp_path, SAYS_EARLY + PATIENT + text)
    assert run.wait_for(r"waiting for \d+ s now: thread 'mine', in "), run.output
    os.kill(run.pid, signal.SIGTERM)
    assert run.wait() in (143, -signal.SIGTERM)


def test_exceptions_in_threads_of_a_user_are_said_once(fork_server, tmp_path):
    text = """
import threading
for _ in range(20):
    threading.Thread(target=lambda: 1 / 0).start()
task = "nop"
"""
    run = start(fork_server, tmp_path, text)
    assert run.wait() == 0
    assert run.output.count("ZeroDivisionError") == 1, run.output
    assert "WARNING: A thread has ended: ZeroDivisionError: division by zero\n  In train.config, line " in run.output
    assert "Traceback" not in run.output
