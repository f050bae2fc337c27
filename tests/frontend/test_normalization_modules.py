"""Modules of normalization, against those of PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError

BATCH, TIME, FEATURE = Dim(3, name="batch", kind=Dim.Types.Batch), Dim(5, name="time"), Dim(6, name="feature")
DIMS = [BATCH, TIME, FEATURE]


@pytest.fixture(autouse=True)
def torch_backend():
    with rf.backend_ctx("torch"):
        torch.manual_seed(1)
        yield
        rf.init_forward_step_run_ctx()


def source(*dims: Dim) -> Tensor:
    sizes = [int(d.get_dim_value()) for d in dims]
    return Tensor("x", dims, "float32", raw_tensor=torch.randn(sizes) * 2 + 1, feature_dim=FEATURE)


def randomize(module) -> list[torch.Tensor]:
    """:return: the values of scale and bias"""
    names = [name for name in ("scale", "bias", "gamma", "beta") if getattr(module, name, None) is not None]
    for name in names:
        getattr(module, name).assign(rf.random_normal([FEATURE], dtype="float32"))
    return [getattr(module, name).raw_tensor.detach() for name in names]


def test_layer_norm():
    module, x = rf.LayerNorm(FEATURE), source(*DIMS)
    scale, bias = randomize(module)
    out = module(x)
    assert out.feature_dim == FEATURE
    torch.testing.assert_close(out.raw_tensor, functional.layer_norm(x.raw_tensor, [6], scale, bias, 1e-6))


def test_rms_norm():
    module, x = rf.RMSNorm(FEATURE), source(*DIMS)
    (scale,) = randomize(module)
    torch.testing.assert_close(module(x).raw_tensor, functional.rms_norm(x.raw_tensor, [6], scale, 1e-6))


def test_group_norm():
    module, x = rf.GroupNorm(FEATURE, num_groups=2), source(*DIMS)
    scale, bias = randomize(module)
    expected = functional.group_norm(x.raw_tensor.reshape(15, 6), 2, scale, bias, 1e-6).reshape(3, 5, 6)
    torch.testing.assert_close(module(x).raw_tensor, expected)


def test_group_norm_over_frames_leaves_out_padding():
    module = rf.GroupNormSpatial(FEATURE, num_groups=3)
    lengths = torch.tensor([5, 2, 4], dtype=torch.int32)
    time = Dim(Tensor("lengths", [BATCH], "int32", raw_tensor=lengths), name="time")
    x = source(BATCH, time, FEATURE)
    scale, bias = randomize(module)
    out = module(x, spatial_dim=time).copy_compatible_to_dims_raw([BATCH, time, FEATURE])
    for entry, length in enumerate(lengths):
        frames = x.raw_tensor[entry, :length].T[None]
        expected = functional.group_norm(frames, 3, scale, bias, 1e-6)[0].T
        torch.testing.assert_close(out[entry, :length], expected)


def test_normalize_over_frames():
    module, x = rf.Normalize(param_dims=FEATURE, epsilon=1e-3), source(*DIMS)
    scale, bias = randomize(module)
    expected = functional.instance_norm(x.raw_tensor.mT, weight=scale, bias=bias, eps=1e-3).mT
    torch.testing.assert_close(module(x, axis=TIME).copy_compatible_to_dims_raw(DIMS), expected)


def test_batch_norm_in_training_and_after():
    module, expected = rf.BatchNorm(FEATURE, momentum=0.2), torch.nn.BatchNorm1d(6, eps=1e-3, momentum=0.2)
    gamma, beta = randomize(module)
    with torch.no_grad():
        expected.weight.copy_(gamma)
        expected.bias.copy_(beta)
    for is_training in (True, True, False):
        x = source(*DIMS)
        expected.train(is_training)
        rf.init_train_step_run_ctx(train_flag=is_training)
        torch.testing.assert_close(module(x).raw_tensor, expected(x.raw_tensor.mT).mT)
    torch.testing.assert_close(module.running_mean.raw_tensor.detach(), expected.running_mean)
    torch.testing.assert_close(module.running_variance.raw_tensor.detach(), expected.running_var)


def test_batch_norm_leaves_out_padding():
    module = rf.BatchNorm(FEATURE, affine=False, track_running_stats=False, use_mask=True)
    time = Dim(Tensor("lengths", [BATCH], "int32", raw_tensor=torch.tensor([5, 2, 4], dtype=torch.int32)), name="time")
    x = source(BATCH, time, FEATURE)
    x.raw_tensor[1, 2:] = float("nan")
    x.raw_tensor[2, 4:] = float("nan")
    rf.init_train_step_run_ctx(train_flag=True)
    mask = time.get_mask().raw_tensor
    expected = functional.batch_norm(x.raw_tensor[mask], None, None, training=True, eps=1e-3)
    torch.testing.assert_close(module(x).raw_tensor[mask], expected)


def test_error_texts():
    with pytest.raises(DimError) as info:
        rf.GroupNorm(FEATURE, num_groups=4)
    assert str(info.value) == "GroupNorm: the features feature(6) cannot be divided into 4 groups."
    with pytest.raises(DimError) as info:
        rf.RMSNorm(FEATURE)(Tensor("x", [TIME], "float32", raw_tensor=torch.zeros(5)))
    assert str(info.value).startswith("RMSNorm: 'x' [time(5)] has no dim feature(6).")
