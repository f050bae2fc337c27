"""Attention layers against their formulas."""

import math

import numpy
import pytest

from returnn.util.behavior_version import BehaviorVersion
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences

LOCATIONS = {
    "first": {"class": "gather", "axis": "F", "position": 0, "from": "data:vec"},
    "location": {"class": "eval", "from": "first", "eval": "tf.abs(source(0)) * 2"},
}


@pytest.mark.parametrize(("window", "inner"), [(3, None), (4, None), (5, 3), (4, 2)])
def test_gauss_window_around_a_location(window, inner):
    step, std = 0.25, 0.8
    options = {} if inner is None else {"inner_size": inner, "inner_size_step": step}
    attention = {"class": "gauss_window_attention", "base": "data", "window_size": window, "std": std, **options}
    net = RecurrentNet({**LOCATIONS, "output": {**attention, "from": "location"}})
    data, lengths = sequences(n_batch=2, max_len=6)
    vec = numpy.random.RandomState(2).normal(size=(2, 5)).astype("float32")
    output = net.run(data, lengths, vec=vec).output
    offsets = [0.0] if inner is None else [(i - (inner - 1) / 2) * step for i in range(inner)]
    wanted = numpy.zeros((2, len(offsets), 3))
    for b, location in enumerate(2 * numpy.abs(vec[:, 0])):
        first = int(numpy.round(location)) - window // 2
        for i, offset in enumerate(offsets):
            for t in range(first, first + window):
                weight = math.exp(-0.5 * ((t - location - offset) / std) ** 2) / (std * math.sqrt(2 * math.pi))
                wanted[b, i] += weight * data[b, min(max(t, 0), lengths[b] - 1)]
    numpy.testing.assert_allclose(output.reshape(wanted.shape), wanted, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("auto_squeeze", [True, False])
def test_weights_of_size_one_are_squeezed(heads, auto_squeeze):
    net_dict = {
        "energy": {"class": "linear", "activation": None, "with_bias": False, "n_out": heads, "from": "data"},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "output": {"class": "generic_attention", "base": "data", "weights": "weights", "auto_squeeze": auto_squeeze},
    }
    net = RecurrentNet(net_dict)
    data, lengths = sequences()
    output = net.run(data, lengths).output
    assert output.shape == ((3, 3) if auto_squeeze and heads == 1 else (3, heads, 3))
    for b, n in enumerate(lengths):
        energy = numpy.exp(data[b, :n] @ net.params["energy/W"])
        weights = energy / energy.sum(axis=0)
        numpy.testing.assert_allclose(output[b].reshape(heads, 3), weights.T @ data[b, :n], atol=1e-5)


@pytest.mark.parametrize("factor", [None, 0.3])
def test_dot_attention(factor):
    options = {} if factor is None else {"energy_factor": factor}
    net_dict = {
        "query": {"class": "linear", "activation": None, "n_out": 3, "from": "data:vec"},
        "output": {"class": "dot_attention", "base": "data", "base_ctx": "data", "from": "query", **options},
    }
    net = RecurrentNet(net_dict)
    data, lengths = sequences()
    vec = numpy.random.RandomState(2).normal(size=(3, 5)).astype("float32")
    output = net.run(data, lengths, vec=vec).output
    query = vec @ net.params["query/W"] + net.params["query/b"]
    for b, n in enumerate(lengths):
        energy = numpy.exp(data[b, :n] @ query[b] * (factor or 1))
        numpy.testing.assert_allclose(output[b], energy / energy.sum() @ data[b, :n], atol=1e-5)


def test_weights_with_the_features_of_the_base_in_behavior_version_0():
    net_dict = {
        "weights": {"class": "softmax_over_spatial", "from": "data"},
        "output": {"class": "generic_attention", "base": "data", "weights": "weights", "auto_squeeze": False},
    }
    BehaviorVersion.set(0)
    net = RecurrentNet(net_dict)
    data, lengths = sequences()
    output = net.run(data, lengths).output
    for b, n in enumerate(lengths):
        weights = numpy.exp(data[b, :n]) / numpy.exp(data[b, :n]).sum(axis=0)
        numpy.testing.assert_allclose(output[b], weights.T @ data[b, :n], rtol=1e-4, atol=1e-5)


def test_of_a_sequence_without_frames_nothing_is_found():
    """NaN in its place would reach whatever is compared with it, such as the other hypotheses of a search."""
    net_dict = {
        "energy": {"class": "linear", "from": "data", "n_out": 1, "activation": None},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "output": {"class": "generic_attention", "weights": "weights", "base": "data"},
    }
    data, lengths = sequences(n_batch=3, max_len=4)
    lengths[1] = 0
    output = RecurrentNet(net_dict).run(data, lengths).output
    assert (output[1] == 0).all()
    assert (output[[0, 2]] != 0).all()
