"""Faults of real processes with PyTorch: the others say who is missing; started again, it ends as without the fault."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from returnn.frontend.checkpoint import load_torch_checkpoint
from tests.faulty_step import Fault, plan_faults
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
from tests.faulty_step import is_due, note_step
def train_step(**kwargs):
    note_step()
    small_model.train_step(**kwargs)
batch_size, max_seqs, num_epochs = 100000, 2, 3
optimizer = {"class": "adam"}
learning_rate = 0.01
model, learning_rate_file = "net", "rates"
use_tensorboard = False
cleanup_old_models = {"keep_last_n": 2}
torch_distributed = {"timeout_s": 300, "combine": "batch", "data": "shard"}
accum_grad_multiple_step, save_interval_steps = 3, 2
"""
# A worker that is only slow does not answer in time either: then all start again once more, with the same result.
IMPATIENT = CONFIG.replace('"timeout_s": 300', '"timeout_s": 10 if is_due() else 300')
RESTARTS = 9
pytestmark = pytest.mark.slow


def parameters(folder):
    return load_torch_checkpoint(str(folder / "net.003.pt"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """:return: folder of a training without a fault, which torchrun starts"""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "my.config").write_text(CONFIG)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    done = subprocess.run(
        [*command, str(ROOT / "rnn.py"), "my.config"],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count("\nepoch 3, ") == 1  # only the first worker shows anything
    return folder


# An epoch has 10 steps of a worker, and one step of evaluation of the second one. The first one also has what the
# others ask who is there.
FAULTS = (
    Fault(rank=1, step=11 + 7, kind="SIGSTOP", after_file="net.002.unfinished.pt"),
    Fault(rank=0, step=5, kind="SIGSTOP"),
    Fault(rank=1, step=4, kind="SIGTERM"),
)


def test_started_again_it_ends_as_without_the_faults(tmp_path, undisturbed):
    plan_faults(tmp_path, *FAULTS)
    status, text = Launched(tmp_path, IMPATIENT, restarts=RESTARTS).end()
    assert status == 143, text
    assert f"starts all again, 2 of {RESTARTS}" in text
    assert re.search("start training at epoch 2 of 3, after step [1-7]", text)
    for stopped in (0, 1):
        assert re.search(f"worker {1 - stopped} of 2 ends, because worker {stopped} does not answer", text), text
    assert "another worker was asked to. The same command again goes on there." in text
    status, text = Launched(tmp_path, CONFIG).end()
    assert status == 0, text
    assert re.search(r"start training at epoch [23] of 3, after step \d+", text)
    assert scores(tmp_path) == scores(undisturbed)
    wanted = parameters(undisturbed)
    assert all((value == wanted[name]).all() for name, value in parameters(tmp_path).items())
    assert not [name for name in os.listdir(tmp_path) if "unfinished" in name]
