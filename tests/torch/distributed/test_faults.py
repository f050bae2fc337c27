"""Faults of real processes with PyTorch: the others say who is missing; started again, it ends as without the fault."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from returnn.frontend.checkpoint import load_torch_checkpoint
from tests.faulty_step import plan_fault
from tests.launched import ROOT, Launched, scores
from tests.patience import PATIENCE_S

CONFIG = """#!rnn.py
backend = "torch"
behavior_version = 30
task = "train"
train = {"class": "Task12AXDataset", "num_seqs": 40, "fixed_random_seed": 1}
dev = {"class": "Task12AXDataset", "num_seqs": 6, "fixed_random_seed": 2}
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import EXTERN_DATA as extern_data, get_model
from tests.faulty_step import note_step
def train_step(**kwargs):
    note_step()
    small_model.train_step(**kwargs)
batch_size, max_seqs, num_epochs = 100000, 2, 3
optimizer = {"class": "adam"}
learning_rate = 0.01
model, learning_rate_file = "net", "rates"
use_tensorboard = False
cleanup_old_models = {"keep_last_n": 2}
torch_distributed = {"timeout_s": 300}
accum_grad_multiple_step, save_interval_steps = 3, 2
"""
# A worker that is only slow does not answer in time either: then all start again once more, with the same result.
IMPATIENT = CONFIG.replace('"timeout_s": 300', '"timeout_s": 20')
RESTARTS = 9
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torch_distributed")]


# An epoch has 10 steps of a worker, and one step of evaluation of the second one.
FAULT = {"rank": 1, "step": 11 + 7, "after_file": "net.002.unfinished.pt"}


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


@pytest.mark.parametrize("stopped", [0, 1])  # the first one also has what the others ask who is there
def test_started_again_it_ends_as_without_the_fault(tmp_path, undisturbed, stopped):
    plan_fault(tmp_path, **{**FAULT, "rank": stopped}, fault=signal.SIGSTOP)
    status, text = Launched(tmp_path, IMPATIENT, restarts=RESTARTS).end()
    assert status == 0, text
    assert f"starts all again, 1 of {RESTARTS}" in text
    assert re.search("start training at epoch 2 of 3, after step [246]", text)
    assert re.search(f"worker {1 - stopped} of 2 ends, because worker {stopped} does not answer", text), text
    assert scores(tmp_path) == scores(undisturbed)
    wanted = parameters(undisturbed)
    assert all((value == wanted[name]).all() for name, value in parameters(tmp_path).items())
    assert not [name for name in os.listdir(tmp_path) if "unfinished" in name]


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
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path) == scores(undisturbed)


def test_a_worker_that_is_asked_to_end_takes_the_others_along(tmp_path, undisturbed):
    plan_fault(tmp_path, **FAULT, fault=signal.SIGTERM)
    status, text = Launched(tmp_path, CONFIG).end()
    assert status == 143, text
    assert "another worker was asked to. The same command again goes on there." in text
    status, text = Launched(tmp_path, CONFIG).end()
    assert status == 0, text
    assert "start training at epoch 2 of 3, after step 7" in text
    assert scores(tmp_path) == scores(undisturbed)
