"""Faults of real processes with PyTorch: the others say who is missing; started again, it ends as without the fault."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from returnn.frontend.checkpoint import load_torch_checkpoint
from tests.launched import ROOT, Launched, scores

CONFIG = """#!rnn.py
backend = "torch"
behavior_version = 30
task = "train"
train = {"class": "Task12AXDataset", "num_seqs": 40, "fixed_random_seed": 1}
dev = {"class": "Task12AXDataset", "num_seqs": 6, "fixed_random_seed": 2}
from tests.engine.frontend.small_model import EXTERN_DATA as extern_data, get_model, train_step
batch_size, max_seqs, num_epochs = 100000, 2, 3
optimizer = {"class": "adam"}
learning_rate = 0.01
model, learning_rate_file = "net", "rates"
use_tensorboard = False
cleanup_old_models = {"keep_last_n": 2}
torch_distributed = {"timeout_s": 8}
"""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torch_distributed")]


def parameters(folder):
    return load_torch_checkpoint(str(folder / "net.003.pt"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """:return: folder of a training without a fault"""
    folder = tmp_path_factory.mktemp("undisturbed")
    status, text = Launched(folder, CONFIG).end()
    assert status == 0, text
    assert text.count("\nepoch 3, ") == 1  # only the first worker shows anything
    return folder


def test_started_again_it_ends_as_without_the_fault(tmp_path, undisturbed):
    run = Launched(tmp_path, CONFIG, restarts=1)
    run.wait_for("epoch 2, ")
    os.kill(run.worker(1), signal.SIGSTOP)
    status, text = run.end()
    assert status == 0, text
    assert "starts all again, 1 of 1" in text
    assert re.search(r"worker 0 of 2 ends, because worker 1 does not answer", text), text
    assert scores(tmp_path) == scores(undisturbed)
    wanted = parameters(undisturbed)
    assert all((value == wanted[name]).all() for name, value in parameters(tmp_path).items())


def test_torchrun_starts_it(tmp_path, undisturbed):
    (tmp_path / "my.config").write_text(CONFIG)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    done = subprocess.run(
        [*command, str(ROOT / "rnn.py"), "my.config"],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path) == scores(undisturbed)


def test_a_worker_that_is_asked_to_end_takes_the_others_along(tmp_path):
    run = Launched(tmp_path, CONFIG, "++num_epochs", "500")
    run.wait_for("epoch 2, ")
    os.kill(run.worker(1), signal.SIGTERM)
    status, text = run.end(within_s=30)
    assert status == 143, text
    assert "another worker was asked to" in text
