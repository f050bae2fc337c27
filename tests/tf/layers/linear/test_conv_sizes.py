"""`pad_seq_len_to_power` of `ConvLayer`: other sizes in memory while it computes, and nothing else."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, construct

tf1 = tf.compat.v1
CONV = {"class": "conv", "filter_size": (3,), "padding": "same", "n_out": 4, "with_bias": True, "from": "data"}
CASES = {
    "same": CONV,
    "same_masked": {**CONV, "use_time_mask": True, "activation": "relu"},
    "same_strides": {**CONV, "strides": 2, "filter_size": (4,), "use_time_mask": True},
    "same_large_strides": {**CONV, "strides": 3, "filter_size": (2,)},
    "same_static": {**CONV, "padding": "same_static", "strides": 2},
    "valid": {**CONV, "padding": "valid"},
    "valid_strides_of_4": {**CONV, "padding": "valid", "strides": 2, "filter_size": (4,)},
    "too_short": {**CONV, "padding": "valid", "filter_size": (7,)},
    "dilation": {**CONV, "padding": "valid", "dilation_rate": 2, "filter_size": (2,)},
    "dilation_strides": {**CONV, "dilation_rate": 2, "strides": 2},
    "frames_on_both_sides": {**CONV, "padding": 1, "use_time_mask": True},
    "groups": {**CONV, "groups": 2},
    "2d": {**CONV, "filter_size": (3, 2), "strides": (2, 1), "from": "data:image"},
    "static_dim": {**CONV, "filter_size": (2,), "in_spatial_dims": ["dim:4"], "from": "data:image"},
}  # fmt: skip
PADDING = {"float32": 0.5, "int32": 0}


@pytest.fixture(scope="module", params=[1.1, 2])
def net(request):
    longer = {
        f"longer_{name}": {**desc, "pad_seq_len_to_power": request.param, "reuse_params": name}
        for name, desc in CASES.items()
    }
    return LayerNet({**CASES, **longer})


@pytest.mark.parametrize("lengths", [LENGTHS, (1, 7, 2), (8,), (13, 9)])
def test_output_is_the_same(net, lengths):
    results = net.run(batch_of(lengths, padding=PADDING), lengths)
    assert results["same"].any()
    for name in CASES:
        numpy.testing.assert_allclose(results[f"longer_{name}"], results[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_dims_are_the_same(net, name):
    dims, longer = (net.outputs[prefix + name].dims for prefix in ("", "longer_"))
    assert longer[:-1] == dims[:-1]


def test_gradients_are_the_same():
    plain, longer = (gradients({**CASES["same_strides"], **more}) for more in ({}, {"pad_seq_len_to_power": 1.5}))
    for expected, actual in zip(plain, longer, strict=True):
        numpy.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def gradients(desc):
    """:return: with respect to data and parameters"""
    net = LayerNet({"conv": desc})
    with net.graph.as_default():
        inputs = [net.net.extern_data.data["data"].raw_tensor, *net.net.get_trainable_params()]
        net.fetches = tf1.gradients(tf.reduce_sum(tf.sin(net.fetches["conv"])), inputs)
    return net.run(batch_of(padding=PADDING))


@pytest.mark.parametrize(("base", "sizes"), [(2, {1, 2, 4, 8, 16, 32}), (1.5, {1, 3, 4, 6, 8, 12, 18, 26})])
def test_sizes_are_those_of_the_power_series(base, sizes):
    seen = sizes_of_convolution({"output": {**CONV, "pad_seq_len_to_power": base}}, {}, range(1, 26))
    assert set(seen.values()) == sizes
    assert all(length <= size < length * base + 1 for length, size in seen.items())


def test_config_has_the_default():
    net_dict = {"output": CONV}
    assert sizes_of_convolution(net_dict, {"conv_pad_seq_len_to_power": 2}, [5]) == {5: 8}
    assert sizes_of_convolution(net_dict, {}, [5]) == {5: 5}


def sizes_of_convolution(net_dict, options, lengths):
    """:return: length of the data -> size in memory of the time axis that is convolved"""
    extern_data = {"data": {"dim": 6, "shape": (None, 6)}}
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
        config = Config({"extern_data": extern_data, "network": net_dict, "behavior_version": 30, **options})
        net = TFNetwork(config=config)
        net.construct_from_dict(net_dict)
        (conv,) = [op for op in graph.get_operations() if op.type == "Conv2D"]
        data = net.extern_data.data["data"]
        shape = tf.shape(conv.inputs[0])
        feeds = {n: {data.raw_tensor: numpy.zeros((1, n, 6)), data.dims[1].dyn_size: [n]} for n in lengths}
        return {n: max(session.run(shape, {**feed, data.batch.dim: 1})[1:3]) for n, feed in feeds.items()}


@pytest.mark.parametrize("base", [1, 0.5, -2.0])
def test_base_of_at_most_1(base):
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"output": {**CONV, "pad_seq_len_to_power": base}})
    assert "layer 'output' (class 'conv')" in str(info.value)
    assert f"option 'pad_seq_len_to_power': {base}. It has to be more than 1." in str(info.value)
