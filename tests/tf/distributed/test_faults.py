"""Faults of real processes: the others end and say who is missing; started again, it ends as without the fault."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from tests.faulty_step import Fault, plan_faults
from tests.launched import Launched, scores

_COMMON = """#!rnn.py
from tests.faulty_step import is_due, noted
behavior_version = 30
task = "train"
train = {"class": "Task12AXDataset", "num_seqs": 40, "fixed_random_seed": 1}
dev = {"class": "Task12AXDataset", "num_seqs": 6, "fixed_random_seed": 2}
batch_size, max_seqs, num_epochs = 100000, 2, 4
optimizer = {"class": "adam"}
learning_rate = 0.01
model, learning_rate_file = "net", "rates"
cleanup_old_models = {"keep_last_n": 2}
distributed_tf = {"timeout_s": 300}
accum_grad_multiple_step, save_interval_steps = 3, 2
"""
CONFIG = (
    _COMMON
    + """num_inputs, num_outputs = 9, 2
network = {
    "noted": {"class": "eval", "from": "data", "eval": lambda source, **_kwargs: noted(source(0))},
    "hidden": {
        "class": "linear", "activation": "tanh", "n_out": 6, "from": "noted", "dropout": 0.1,
        "batch_norm": {"masked_time": True},
    },
    "output": {"class": "softmax", "loss": "ce", "from": "hidden"},
}
"""
)
CONFIG_OF_MODEL = (
    _COMMON
    + """backend = "tensorflow"
use_tensorboard = False
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import EXTERN_DATA as extern_data, get_model
def train_step(*, extern_data, **kwargs):
    data = extern_data["data"].copy()
    data.raw_tensor = noted(data.raw_tensor)
    small_model.train_step(extern_data={"data": data, "classes": extern_data["classes"]}, **kwargs)
"""
)
RESTARTS = 9
pytestmark = pytest.mark.slow


def impatient(config):
    """
    :return: with a short timeout as long as there is a fault to come. A worker that is only slow does not answer in
        time either: then all start again once more, with the same result
    """
    return config.replace('"timeout_s": 300', '"timeout_s": 10 if is_due() else 300')


def trained(folder, config):
    """:return: scores of a training without a fault"""
    status, text = Launched(folder, config).end()
    assert status == 0, text
    assert text.count("\nepoch 4, ") == 1  # only the first worker shows anything
    return scores(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """:return: folder, scores"""
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, trained(folder, CONFIG)


# An epoch has 10 steps of a worker, and one step of evaluation of the second one.
FAULT = {"rank": 1, "step": 11 + 7, "after_file": "net.002.unfinished.index"}


def test_killed_and_asked_to_end_it_ends_as_without_these_faults(tmp_path, undisturbed):
    plan_faults(tmp_path, Fault(**FAULT, kind="SIGKILL"), Fault(rank=1, step=11, kind="SIGTERM"))
    status, text = Launched(tmp_path, CONFIG, restarts=RESTARTS).end()
    assert f"starts all again, 1 of {RESTARTS}" in text
    assert re.search("start training at epoch 2 of 4, after step [1-7]", text)
    assert status == 143, text
    assert "interrupted by SIGTERM" in text
    assert "another worker was asked to. The same command again goes on there." in text
    status, text = Launched(tmp_path, CONFIG).end()
    assert status == 0, text
    assert re.search("start training at epoch 3 of 4, after step [1-8]", text)
    assert scores(tmp_path) == undisturbed[1]
    assert not [name for name in os.listdir(tmp_path) if "unfinished" in name]


def test_a_stopped_one_is_named_and_the_model_in_python_ends_as_without_it(tmp_path):
    wanted = trained(tmp_path / "undisturbed", CONFIG_OF_MODEL)
    plan_faults(tmp_path, Fault(**FAULT, kind="SIGSTOP"))
    status, text = Launched(tmp_path, impatient(CONFIG_OF_MODEL), restarts=RESTARTS).end()
    assert status == 0, text
    assert re.search(r"worker 0 of 2 ends, because worker 1 at 127.0.0.1:\d+ does not answer", text)
    assert re.search("start training at epoch 2 of 4, after step [1-7]", text)
    assert scores(tmp_path) == wanted


def test_workers_that_see_other_models(tmp_path, undisturbed):
    folder = tmp_path / "seen"
    shutil.copytree(undisturbed[0], folder)
    other = CONFIG.replace('"net"', '"net" if "\\"index\\": 0" in os.environ["TF_CONFIG"] else "other/net"')
    other = other.replace("num_epochs = 100000, 2, 4", "num_epochs = 100000, 2, 5")
    status, text = Launched(folder, other.replace("behavior", "import os\nbehavior", 1)).end()
    assert status == 1, text
    assert "distributed_tf: the epoch to begin with is 5, 1 on the workers 0 to 1." in text
