"""Expressions in a config: activation functions of `x`, and `source` in `eval`."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tf.network import TFNetwork
from returnn.tf.util.data import SpatialDim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

BATCH = batch_of(padding={"float32": 0.0, "int32": 0})
X = BATCH["data"]
ACTIVATIONS = {
    "tf.maximum(x, 0.1 * x)": numpy.maximum(X, 0.1 * X),
    "x * sigmoid(x)": X / (1 + numpy.exp(-X)),
    "2 * x + 1": 2 * X + 1,
    "tf.where(x > 0, x, tf.zeros_like(x))": numpy.maximum(X, 0),
    "tanh*sigmoid": numpy.tanh(X) / (1 + numpy.exp(-X)),
    "lambda y: y * 2": 2 * X,
    "": X,
}
IS_FRAME = (numpy.arange(max(LENGTHS))[None] < numpy.array(LENGTHS)[:, None])[..., None]


@pytest.mark.parametrize("text", ACTIVATIONS)
@pytest.mark.parametrize("layer_class", ["activation", "eval"])
def test_activation_functions(text, layer_class):
    desc = {"class": "activation", "activation": text, "from": "data"}
    if layer_class == "eval":
        desc = {"class": "combine", "kind": "add", "activation": text, "from": ["data"]}
    out = LayerNet({"x": desc}, fetch=("x",)).run(BATCH)["x"]
    numpy.testing.assert_allclose(out, ACTIVATIONS[text] * IS_FRAME, rtol=1e-4, atol=1e-5)


def test_unknown_function_in_an_expression():
    with pytest.raises(ConfigError, match="there is no activation function 'no_such'"):
        LayerNet({"x": {"class": "activation", "activation": "no_such(x) * 2", "from": "data"}})


def test_source_as_layer():
    lengths = "source(1, as_layer=True).output.get_sequence_lengths()"
    net_dict = {
        "x": {
            "class": "eval", "eval": f"source(0) / tf.cast({lengths}, tf.float32)[:, None]",
            "from": ["data:vec", "data"],
            "out_type": {"shape": (6,), "dim": 6, "batch_dim_axis": 0, "time_dim_axis": None},
        }
    }  # fmt: skip
    out = LayerNet(net_dict, fetch=("x",)).run(BATCH)["x"]
    numpy.testing.assert_allclose(out, BATCH["vec"] / numpy.array(LENGTHS)[:, None], rtol=1e-5)


def test_dims_that_the_config_promises_are_those_of_all_sources():
    a, b = SpatialDim("a", 2), SpatialDim("b", 3)
    net_dict = {
        "first": {"class": "variable", "shape": (a,)},
        "second": {"class": "variable", "shape": (b,)},
        "x": {"class": "combine", "kind": "add", "from": ["first", "second"]},
    }
    with pytest.raises(ConfigError, match="the dims do not match"):
        LayerNet(net_dict)
    for promise in ({"allow_broadcast_all_sources": True}, {"out_shape": {a, b}}):
        net = LayerNet({**net_dict, "x": {**net_dict["x"], **promise}}, fetch=("x",))
        assert set(net.outputs["x"].dims) == {a, b}


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize(
    "twice", ["source(0) + source(0)", "tf.add_n([source(0)] * 2)", "(lambda x: x + x)(source(0))"]
)
def test_a_source_twice_in_a_loop(twice, is_kept):
    """The graph optimizer of TensorFlow fails on `x + x` there, if x is `matmul + bias` by its operation for sums."""
    linear = {"class": "linear", "from": ["data:source", "prev:sum"], "n_out": 3, "activation": None}
    unit = {"x": {**linear, "is_output_layer": is_kept}, "sum": {"class": "eval", "from": "x", "eval": twice}}
    unit["output"] = {"class": "copy", "from": "sum"}
    net_dict = {"loop": {"class": "rec", "from": "data", "unit": unit}}
    found = LayerNet(net_dict, fetch=("loop", "loop/x") if is_kept else ("loop",)).run(BATCH)
    assert found["loop"].any()
    if is_kept:
        numpy.testing.assert_allclose(found["loop"], 2 * found["loop/x"], rtol=1e-5)


@pytest.mark.parametrize("train", [True, False])
def test_functions_of_the_frontend_on_a_source(train):
    """As the tutorial has SpecAugment in a net dict."""

    def spec_augment(source, **_others):
        features = source(0, as_data=True)
        return rf.audio.specaugment(features, spatial_dim=features.get_time_dim_tag())

    config = Config({"extern_data": {"data": {"dim": 10}}, "behavior_version": 30})
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf.compat.v1.Session() as session:
        network = TFNetwork(config=config, train_flag=train)
        network.construct_from_dict({"output": {"class": "eval", "from": "data", "eval": spec_augment}})
        data = network.extern_data.get_default_input_data()
        feed = {data.raw_tensor: numpy.ones((3, 50, 10)), data.get_time_dim_tag().dyn_size: [50, 40, 30]}
        session.run(tf.compat.v1.global_variables_initializer())
        out = session.run(network.get_default_output_layer().output.raw_tensor, {**feed, data.batch.dim: 3})
    assert (out == 0).any() == train
    assert {*numpy.unique(out)} <= {0.0, 1.0}
