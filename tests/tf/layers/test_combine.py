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
