"""Padding that does not depend on the sizes of a batch: "same_static" and numbers, against numpy."""

import numpy
import pytest

from returnn.tf.util.data import FeatureDim, SpatialDim
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

BATCH = batch_of(padding={"float32": 0.0, "int32": 0})


def padded(x, left, right):
    return numpy.pad(x, [(0, 0), (left, right), (0, 0)])


def sides(size, stride, dilation=1):
    """:return: frames before and behind, as TensorFlow has them for a multiple of the stride"""
    reach = (size - 1) * dilation
    left = max(reach + 1 - stride, 0) // 2
    return left, reach + stride - left


@pytest.mark.parametrize(
    ("size", "stride", "dilation"), [(5, 2, 1), (4, 3, 1), (2, 3, 1), (3, 1, 1), (3, 1, 2), (3, 2, 2)]
)
def test_same_static_of_a_convolution(size, stride, dilation):
    conv = {"class": "conv", "filter_size": (size,), "padding": "same_static", "n_out": 3, "with_bias": False}
    net = LayerNet({"x": {**conv, "strides": stride, "dilation_rate": dilation, "from": "data"}}, fetch=("x",))
    weights = net.session.run(net.net.get_layer("x").params["W"])
    out, data = net.run(BATCH)["x"], padded(BATCH["data"], *sides(size, stride, dilation))
    assert out.shape[1] == -(-max(LENGTHS) // stride)
    for b, length in enumerate(LENGTHS):
        for t in range(-(-length // stride)):
            window = data[b, t * stride : t * stride + (size - 1) * dilation + 1 : dilation]
            numpy.testing.assert_allclose(out[b, t], numpy.einsum("kf,kfo->o", window, weights), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mode", ["max", "avg"])
@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(3, 1, "same_static"), (4, 2, "same_static"), (2, 2, 1), (3, 1, 2)]
)
def test_zeros_are_in_the_windows_of_pooling(mode, size, stride, padding):
    pool = {"class": "pool", "mode": mode, "pool_size": (size,), "strides": stride, "padding": padding, "from": "data"}
    net = LayerNet({"x": pool, "lengths": {"class": "length", "from": "x"}})
    result = net.run(BATCH)
    left, right = sides(size, stride) if padding == "same_static" else (padding, padding)
    data = padded(BATCH["data"], left, right)
    for b, length in enumerate(LENGTHS):
        count = -(-length // stride) if padding == "same_static" else (length + 2 * padding - size) // stride + 1
        assert result["lengths"][b] == count
        for t in range(count):
            window = data[b, t * stride : t * stride + size]
            wanted = window.max(axis=0) if mode == "max" else window.mean(axis=0)
            numpy.testing.assert_allclose(result["x"][b, t], wanted, rtol=1e-4, atol=1e-6)


def test_the_window_of_a_filter_from_another_layer():
    window, in_dim, out_dim = SpatialDim("window", 2), FeatureDim("in", 6), FeatureDim("out", 3)
    net_dict = {
        "filter": {"class": "variable", "shape": (window, in_dim, out_dim), "init": "glorot_uniform"},
        "in": {"class": "reinterpret_data", "set_dim_tags": {"F": in_dim}, "from": "data"},
        "x": {"class": "conv", "filter_size": [window], "filter": "filter", "padding": "valid", "with_bias": False},
    }
    net_dict["x"].update({"in_dim": in_dim, "out_dim": out_dim, "from": "in"})
    net = LayerNet(net_dict, fetch=("x",))
    assert [param.op.name for param in net.net.get_params_list()] == ["filter/filter"]
    weights, out = net.session.run(net.net.get_layer("filter").params["filter"]), net.run(BATCH)["x"]
    wanted = numpy.einsum("bkf,kfo->bo", BATCH["data"][:, 1:3], weights)
    numpy.testing.assert_allclose(out[:, 1], wanted, rtol=1e-3, atol=1e-5)
