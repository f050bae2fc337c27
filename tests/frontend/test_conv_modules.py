"""Modules of convolutions, against those of PyTorch."""

from __future__ import annotations

import pytest
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError

BATCH, IN, OUT = Dim(2, name="batch", kind=Dim.Types.Batch), Dim(4, name="in"), Dim(6, name="out")


@pytest.fixture(autouse=True)
def torch_backend():
    with rf.backend_ctx("torch"):
        rf.set_random_seed(1)
        yield


def spatial_dims(number: int) -> list[Dim]:
    return [Dim(7 + i, name=f"axis{i}") for i in range(number)]


def source(axes: list[Dim], feature: Dim = IN) -> Tensor:
    dims = [BATCH, *axes, feature]
    return Tensor("x", dims, "float32", raw_tensor=torch.randn([d.size for d in dims]), feature_dim=feature)


def call(module, x: Tensor, axes: list[Dim]) -> tuple[Tensor, list[Dim]]:
    if module.nd == 1:
        out, dim = module(x, in_spatial_dim=axes[0])
        return out, [dim]
    out, dims = module(x, in_spatial_dims=axes)
    return out, list(dims)


def assert_like(module, expected, axes: list[Dim], x: Tensor, first: Dim, second: Dim) -> None:
    filter = module.filter.copy_compatible_to_dims_raw([first, second, *module.filter_size])
    with torch.no_grad():
        expected.weight.copy_(filter.detach())
        expected.bias.copy_(torch.arange(6.0))
    module.bias.assign(rf.range_over_dim(OUT, dtype="float32"))
    out, dims = call(module, x, axes)
    value = out.copy_compatible_to_dims_raw([BATCH, OUT, *dims])
    torch.testing.assert_close(value, expected(x.copy_compatible_to_dims_raw([BATCH, x.feature_dim, *axes])))


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"strides": 2}, {"dilation_rate": 2}, {"groups": 2}])
def test_convolution(nd, options):
    module = getattr(rf, f"Conv{nd}d")(IN, OUT, 3, padding="valid", **options)
    names = {"strides": "stride", "dilation_rate": "dilation", "groups": "groups"}
    expected = getattr(torch.nn, f"Conv{nd}d")(4, 6, 3, **{names[key]: value for key, value in options.items()})
    axes = spatial_dims(nd)
    assert_like(module, expected, axes, source(axes), OUT, module.filter_in_dim)


@pytest.mark.parametrize("nd", [1, 2, 3])
@pytest.mark.parametrize("options", [{"strides": 1}, {"strides": 2}, {"strides": 2, "output_padding": 1}])
def test_transposed_convolution(nd, options):
    module = getattr(rf, f"TransposedConv{nd}d")(IN, OUT, 3, padding="valid", **options)
    expected = getattr(torch.nn, f"ConvTranspose{nd}d")(
        4, 6, 3, stride=options["strides"], output_padding=options.get("output_padding", 0)
    )
    axes = spatial_dims(nd)
    assert_like(module, expected, axes, source(axes), IN, OUT)


@pytest.mark.parametrize("kind", [rf.Conv2d, rf.TransposedConv2d])
def test_same_features_come_out(kind):
    module = kind(OUT, OUT, [3, 2], padding="same", strides=1, with_bias=False)
    axes = spatial_dims(2)
    out, dims = call(module, source(axes, OUT), axes)
    assert set(out.dims) == {BATCH, *axes, OUT}
    assert dims == axes


def test_error_texts():
    with pytest.raises(DimError) as info:
        rf.Conv1d(IN, OUT, 3, padding="same", groups=3)
    assert str(info.value) == "Conv1d: the features in(4) cannot be divided into 3 groups."
    with pytest.raises(DimError) as info:
        rf.Conv2d(IN, OUT, [3], padding="same")
    assert str(info.value).startswith("Conv2d: filter_size [")
