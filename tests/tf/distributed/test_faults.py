"""Faults of real processes: the others end and say who is missing; started again, it ends as without the fault."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.faulty_step import plan_fault
from tests.launched import ROOT, Launched, scores

CONFIG = """#!rnn.py
behavior_version = 30
task = "train"
train = {"class": "Task12AXDataset", "num_seqs": 40, "fixed_random_seed": 1}
dev = {"class": "Task12AXDataset", "num_seqs": 6, "fixed_random_seed": 2}
batch_size, max_seqs, num_epochs = 100000, 2, 4
num_inputs, num_outputs = 9, 2
from tests.faulty_step import noted
network = {
    "noted": {"class": "eval", "from": "data", "eval": lambda source, **_kwargs: noted(source(0))},
    "hidden": {
        "class": "linear", "activation": "tanh", "n_out": 6, "from": "noted", "dropout": 0.1,
        "batch_norm": {"masked_time": True},
    },
    "output": {"class": "softmax", "loss": "ce", "from": "hidden"},
}
optimizer = {"class": "adam"}
learning_rate = 0.01
model, learning_rate_file = "net", "rates"
cleanup_old_models = {"keep_last_n": 2}
distributed_tf = {"timeout_s": 300}
accum_grad_multiple_step, save_interval_steps = 3, 2

"""
# A worker that is only slow does not answer in time either: then all start again once more, with the same result.
IMPATIENT = CONFIG.replace('"timeout_s": 300', '"timeout_s": 20')
RESTARTS = 9
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("distributed")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """:return: what comes out without a fault"""
    folder = tmp_path_factory.mktemp("undisturbed")
    status, text = Launched(folder, CONFIG).end()
    assert status == 0, text
    assert text.count("\nepoch 4, ") == 1  # only the first worker shows anything
    return scores(folder)


# An epoch has 10 steps of a worker, and one step of evaluation of the second one.
FAULT = {"rank": 1, "step": 11 + 7, "after_file": "net.002.unfinished.index"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_started_again_it_ends_as_without_the_fault(tmp_path, undisturbed, number):
    plan_fault(tmp_path, **FAULT, fault=number)
    run = Launched(tmp_path, IMPATIENT if number == signal.SIGSTOP else CONFIG, restarts=RESTARTS)
    status, text = run.end()
    assert status == 0, text
    assert f"starts all again, 1 of {RESTARTS}" in text
    assert re.search("start training at epoch 2 of 4, after step [246]", text)
    if number == signal.SIGSTOP:
        assert re.search(r"worker 0 of 2 ends, because worker 1 at 127.0.0.1:\d+ does not answer", text)
    assert scores(tmp_path) == undisturbed
    assert not [name for name in os.listdir(tmp_path) if "unfinished" in name]


def test_a_worker_that_is_asked_to_end_takes_the_others_along(tmp_path, undisturbed):
    plan_fault(tmp_path, **FAULT, fault=signal.SIGTERM)
    status, text = Launched(tmp_path, CONFIG).end()
    assert status == 143, text
    assert "interrupted by SIGTERM" in text
    assert "another worker was asked to. The same command again goes on there." in text
    status, text = Launched(tmp_path, CONFIG).end()
    assert status == 0, text
    assert re.search("start training at epoch 2 of 4, after step [789]", text)
    assert scores(tmp_path) == undisturbed


def test_workers_that_see_other_models(tmp_path):
    config = CONFIG
    (tmp_path / "a").mkdir()
    run = Launched(tmp_path, CONFIG, "++num_epochs", "1")
    assert run.end()[0] == 0
    other = config.replace('"net"', '"net" if "\\"index\\": 0" in os.environ["TF_CONFIG"] else "other/net"')
    (tmp_path / "my.config").write_text(other.replace("behavior", "import os\nbehavior", 1))
    launch = [sys.executable, "-m", "returnn.launch", "-n", "2", str(ROOT / "rnn.py"), "my.config"]
    done = subprocess.run(
        launch, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "distributed_tf: the epoch to begin with is 2, 1 on the workers 0 to 1." in done.stderr
