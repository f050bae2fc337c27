"""Kinds of `CombineLayer` and `CompareLayer`."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, construct

POSITIVE = {"class": "compare", "kind": "greater", "value": 0.0, "from": "data"}


def run(net_dict):
    batch = batch_of()
    return batch["data"], LayerNet(net_dict).run(batch)


@pytest.mark.parametrize(
    ("kind", "expected"), [("atan2", numpy.arctan2), ("truediv", numpy.divide), ("logaddexp", numpy.logaddexp)]
)
def test_kind_can_be_any_function_of_two_operands(kind, expected):
    data, out = run({"x": {"class": "combine", "kind": kind, "from": ["data", "y"]}, "y": Y, "z": Z})
    for x, y, found, length in zip(data, out["y"], out["x"], LENGTHS, strict=True):
        numpy.testing.assert_allclose(found[:length], expected(x[:length], y[:length]), rtol=1e-5)


Y = {"class": "eval", "eval": "tf.square(source(0)) + 1.0", "from": "data"}
Z = {"class": "combine", "kind": "atan2", "from": ["data:vec", "data"], "allow_broadcast_all_sources": False}


def test_comparison_can_be_any_function_of_two_operands():
    both = {"class": "compare", "kind": "logical_xor", "from": ["positive", "last"]}
    last = {"class": "compare", "kind": "greater", "value": 0.5, "from": "data"}
    data, out = run({"positive": POSITIVE, "last": last, "x": both})
    for x, found, length in zip(data, out["x"], LENGTHS, strict=True):
        numpy.testing.assert_array_equal(found[:length], (x[:length] > 0) ^ (x[:length] > 0.5))


@pytest.mark.parametrize("kind", ["maximun", "exp", "float32"])
def test_kind_that_is_no_function_of_two_operands(kind):
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"output": {"class": "combine", "kind": kind, "from": ["data", "data"]}})
    message = str(info.value)
    assert message.startswith(f"layer 'output' (class 'combine'): option 'kind': there is no {kind!r}, nor in tf.math")
    assert len(message.splitlines()) == 2


def test_kind_that_does_not_work_with_these_values():
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"output": {"class": "compare", "kind": "logical_xor", "from": ["data", "data"]}})
    assert "option 'kind': 'logical_xor' does not work with 'data'" in str(info.value)


@pytest.mark.parametrize(
    "how",
    [{"kind": "eval", "eval": "0.25 * source(0) + 0.75 * source(1) * x", "eval_locals": {"x": 2}}, {"kind": "add"}],
)
def test_output_loss_is_combined_as_the_output_is(how):
    bw = {"class": "fast_bw", "from": "log_prob", "align_target": "ctc", "align_target_key": "ids"}
    net_dict = {
        "log_prob": {"class": "activation", "activation": "log_softmax", "from": "data"},
        "a": {**bw, "am_scale": 0.5}, "b": bw, "x": {"class": "combine", "from": ["a", "b"], **how},
        "y": {"class": "combine", "from": ["a", "b"], "eval_for_output_loss": True, **how},
    }  # fmt: skip
    net = LayerNet({**net_dict, "output": {"class": "copy", "from": "data"}})
    layers = {name: net.net.get_layer(name) for name in ("a", "b", "x", "y")}
    assert layers["x"].output_loss is None
    net.fetches = {name: layer.output_loss.raw_tensor for name, layer in layers.items() if name != "x"}
    result = net.run(batch_of(padding={"float32": 0, "int32": 0}))
    expected = result["a"] + result["b"] if how["kind"] == "add" else 0.25 * result["a"] + 1.5 * result["b"]
    numpy.testing.assert_allclose(result["y"], expected, rtol=1e-5)
    assert result["y"].shape == (len(LENGTHS),)


def test_source_without_output_loss():
    desc = {"class": "combine", "kind": "add", "from": ["data", "data"], "eval_for_output_loss": True}
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"output": desc})
    assert "layer 'output' (class 'combine'): option 'eval_for_output_loss': layer 'data'" in str(info.value)
    assert "has no output loss" in str(info.value)
