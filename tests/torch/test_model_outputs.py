"""Outputs of a step in PyTorch, where `model_outputs` says what they are, and only the step knows their lengths."""

from __future__ import annotations

import numpy
import pytest
import torch

import returnn.frontend as rf
from returnn.config import set_global_config
from returnn.engine.frontend import tasks
from returnn.forward_iface import ForwardCallbackIface
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError, UserError
from tests.engine.frontend.small_model import config, time_dim

labels_dim = Dim(3, name="labels")


@pytest.fixture(autouse=True)
def backend():
    before = BackendEngine.selected_engine
    yield
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before


class Outputs(ForwardCallbackIface):
    def __init__(self):
        self.by_tag = {}

    def process_seq(self, *, seq_tag, outputs):
        self.by_tag[seq_tag] = outputs


class Halves(torch.nn.Module):
    """Each second frame, three features."""

    def __call__(self, data):
        lengths = data.dims[1].dyn_size_ext.raw_tensor
        return data.raw_tensor[:, ::2, :3], (lengths + 1) // 2


def forward(tmp_path, step, **options):
    """:return: outputs by tag, of several batches, so that lengths are not those of the batch before"""
    callback = Outputs()
    outputs = {"log_probs": {"dims": [batch_dim, Dim(None, name="out_time"), labels_dim], "dtype": "float32"}}
    made = config(tmp_path, task="forward", **{
        "forward_data": {"class": "Task12AXDataset", "num_seqs": 7, "fixed_random_seed": 1}, "max_seqs": 3,
        "get_model": lambda **_: Halves(), "model_outputs": outputs, "forward_callback": callback,
        "forward_step": lambda *, model, extern_data, **_: step(*model(extern_data["data"])), **options,
    })  # fmt: skip
    set_global_config(made)
    BackendEngine.select_engine(config=made)
    tasks.forward(made)
    return callback.by_tag


def set_lengths(lengths):
    rf.get_run_ctx().expected_outputs["log_probs"].dims[1].dyn_size_ext.raw_tensor = lengths


def lengths_before(raw, lengths):
    set_lengths(lengths)
    rf.get_run_ctx().mark_as_output(raw, name="log_probs")


def lengths_behind(raw, lengths):
    rf.get_run_ctx().mark_as_output(raw, name="log_probs")
    set_lengths(lengths)


def another_dim(raw, lengths):
    time = Dim(Tensor("lengths", [batch_dim], "int32", raw_tensor=lengths), name="halves")
    labels = Dim(3, name="other labels")
    rf.get_run_ctx().mark_as_output(raw, "log_probs", dims=[batch_dim, time, labels])


def another_dim_of_tensor(raw, lengths):
    time = Dim(Tensor("lengths", [batch_dim], "int32", raw_tensor=lengths), name="halves")
    tensor = Tensor("x", [time, batch_dim, labels_dim], "float32", raw_tensor=raw.transpose(0, 1))
    rf.get_run_ctx().mark_as_output(tensor, "log_probs")


@pytest.mark.parametrize("step", [lengths_before, lengths_behind, another_dim, another_dim_of_tensor])
def test_lengths_of_a_dim_of_which_nothing_is_known(step, tmp_path):
    found = forward(tmp_path, step)
    data = forward(
        tmp_path,
        None,
        model_outputs=None,
        forward_step=lambda *, extern_data, **_: rf.get_run_ctx().mark_as_output(extern_data["data"], "x"),
    )
    assert len(found) == 7
    assert len({len(outputs["x"].raw_tensor) for outputs in data.values()}) > 3
    for tag, outputs in found.items():
        numpy.testing.assert_array_equal(outputs["log_probs"].raw_tensor, data[tag]["x"].raw_tensor[::2, :3])


def test_labels_of_what_is_expected(tmp_path):
    outputs = {"best": {"dims": [batch_dim, time_dim], "sparse_dim": labels_dim, "dtype": "int64"}}
    found = forward(
        tmp_path,
        None,
        model_outputs=outputs,
        forward_step=lambda *, extern_data, **_: rf.get_run_ctx().mark_as_output(
            extern_data["data"].raw_tensor.argmax(-1), "best"
        ),
    )
    assert all(outputs["best"].sparse_dim == labels_dim for outputs in found.values())


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (
            lambda raw, lengths: rf.get_run_ctx().mark_as_output(raw, "log_probs"),
            r"the lengths of 'out_time' are not known\.\n  Give them: .*expected_outputs\['log_probs'\]\.dims\[1\]",
        ),
        (lambda raw, lengths: lengths_behind(raw, 2 * lengths), "frames in memory along 'out_time', but lengths up to"),
        (lambda raw, lengths: lengths_behind(raw[:, 0], lengths), "the tensor has the shape .*, and dims="),
        (lambda raw, lengths: lengths_behind(raw[:, :, :2], lengths), "has 2 entries, the dim labels.* has 3"),
    ],
)
def test_errors(step, text, tmp_path):
    with pytest.raises((ConfigError, UserError), match=text):
        forward(tmp_path, step)
