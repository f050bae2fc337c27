"""Means over batches, and schedules over steps."""

from __future__ import annotations

import numpy
import pytest
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError

BATCH, FEATURE = Dim(2, name="batch"), Dim(4, name="feature")


@pytest.fixture(autouse=True)
def torch_backend():
    with rf.backend_ctx("torch"):
        yield
        rf.init_forward_step_run_ctx()


def test_running_mean_leaves_out_padding_and_changes_in_training_only():
    lengths = Tensor("lengths", [BATCH], "int32", raw_tensor=torch.tensor([3, 1], dtype=torch.int32))
    time = Dim(lengths, name="time")
    raw = torch.rand(2, 3, 4)
    raw[1, 1:] = float("nan")
    x = Tensor("x", [BATCH, time, FEATURE], "float32", raw_tensor=raw)
    module = rf.RunningMean(FEATURE, alpha=0.25, is_prob_distribution=True)
    rf.init_train_step_run_ctx(train_flag=False)
    numpy.testing.assert_allclose(module(x).raw_tensor.detach().numpy(), 0.25)
    rf.init_train_step_run_ctx(train_flag=True)
    expected = numpy.full(4, 0.25)
    batch_mean = numpy.nanmean(raw.numpy(), axis=(0, 1))
    for _ in range(2):
        expected = 0.25 * batch_mean + 0.75 * expected
        numpy.testing.assert_allclose(module(x).raw_tensor.detach().numpy(), expected, rtol=1e-5)


def test_schedule_over_steps():
    schedule = rf.PiecewiseLinearStepwiseScheduler({10: 1.0, 20: 3.0})
    for step, expected in ((0, 1.0), (15, 2.0), (100, 3.0)):
        rf.init_train_step_run_ctx(train_flag=True, step=step)
        assert float(schedule().raw_tensor) == expected


def test_error_text():
    with pytest.raises(DimError) as info:
        rf.RunningMean(FEATURE, alpha=0)
    assert str(info.value) == "RunningMean: alpha 0 should be above 0, and at most 1."
