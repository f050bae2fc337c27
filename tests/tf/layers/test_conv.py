"""Filters of `ConvLayer` that come from another layer."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LayerNet, batch_of, construct

CONV = {"class": "conv", "filter_size": [3], "padding": "same", "n_out": 4, "with_bias": False, "from": "data"}
FILTER = {"class": "variable", "shape": (3, 6, 4), "init": "glorot_uniform"}
TURNED = {
    "class": "eval", "eval": "tf.transpose(source(0), [2, 1, 0])", "from": "w",
    "out_type": {"shape": (4, 6, 3), "batch_dim_axis": None},
}  # fmt: skip
TURN = {"dim:4": "dim:3", "dim:3": "dim:4"}


def test_filter_of_another_layer_can_be_transposed():
    plain, perm = {**CONV, "filter": "w"}, {**CONV, "filter": "turned", "filter_perm": TURN}
    result = LayerNet({"w": FILTER, "turned": TURNED, "plain": plain, "perm": perm}).run(batch_of())
    assert result["plain"].any()
    numpy.testing.assert_allclose(result["perm"], result["plain"], rtol=1e-5)


def test_axis_that_occurs_twice_in_filter_perm():
    conv = {**CONV, "filter": "w", "filter_perm": {"dim:3": "dim:4", "dim:6": "dim:4"}}
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"w": FILTER, "output": conv})
    assert "option 'filter_perm': an axis of 'w'" in str(info.value)
    assert "occurs twice in {'dim:3': 'dim:4', 'dim:6': 'dim:4'}" in str(info.value)
