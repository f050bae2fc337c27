"""Options of `LinearLayer`."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import batch_dim
from returnn.tf.network import TFNetwork
from returnn.tf.util.data import FeatureDim, SpatialDim
from returnn.util.behavior_version import BehaviorVersion
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, construct

tf1 = tf.compat.v1


def gradient_of_input(grad_filter):
    """:return: for a loss which is larger in the second sequence, and there in its last frame"""
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
        linear = {"class": "linear", "activation": None, "n_out": 6, "from": "data", "grad_filter": grad_filter}
        net = construct({"output": {**linear, "forward_weights_init": "glorot_uniform"}})
        data, out = net.extern_data.data["data"], net.get_layer("output").output
        (gradient,) = tf1.gradients(
            tf.reduce_sum(out.raw_tensor * [[[1.0]] * 3, [[1.0], [1.0], [2.0]]]), data.raw_tensor
        )
        session.run(tf1.global_variables_initializer())
        feed = {data.raw_tensor: numpy.ones((2, 3, 6)), data.get_time_dim_tag().dyn_size: [3, 3], data.batch.dim: 2}
        return session.run(gradient, feed_dict=feed)


@pytest.mark.parametrize(("threshold", "is_kept"), [(1.0, [False, False]), (2.0, [True, False]), (5.0, [True, True])])
def test_sequences_with_a_large_gradient_have_none(threshold, is_kept):
    kept = gradient_of_input(threshold).any(axis=-1)
    assert kept.tolist() == [[keep] * 3 for keep in is_kept]


@pytest.mark.parametrize("use_transposed_weights", [True, False])
@pytest.mark.parametrize("source", ["data", "data:ids"])
def test_the_feature_dim_is_the_last_axis(source, use_transposed_weights):
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        options = {"n_out": 4, "activation": None, "use_transposed_weights": use_transposed_weights}
        out = construct({"output": {"class": "linear", "from": source, **options}}).get_layer("output").output
    assert [dim.size for dim in out.dims] == [None, None, 4]
    assert out.raw_tensor.shape.as_list() == [None, None, 4]


@pytest.mark.parametrize("n_out", [6, 4])
@pytest.mark.parametrize("reuse", ["first", {"map": {"W": {"reuse_layer": "first"}, "b": None}}], ids=["all", "map"])
def test_transposed_weights_of_another_layer(reuse, n_out):
    if reuse == "first" and n_out != 6:
        pytest.skip("the bias has another size")
    net_dict = {
        "first": {"class": "linear", "n_out": n_out, "activation": "tanh", "from": "data"},
        "back": {"class": "linear", "n_out": 6, "activation": None, "use_transposed_weights": True, "from": "first"},
    }
    net_dict["back"]["reuse_params"] = reuse
    net = LayerNet(net_dict)
    weights = net.session.run(net.net.get_layer("first").params["W"])
    result = net.run(batch_of(padding={"float32": 0.0, "int32": 0}))
    numpy.testing.assert_allclose(result["back"], result["first"] @ weights.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("key", ["data", "ids"])
def test_transposed_weights_of_equal_dims(key):
    size = {"data": 6, "ids": 5}[key]
    options = {"n_out": size, "activation": None}
    net_dict = {
        "x": {"class": "linear", "use_transposed_weights": True, "from": f"data:{key}", **options},
        "y": {"class": "linear", "name_scope": "x", "from": "x", **options},
    }
    net = LayerNet(net_dict)
    weights, batch = net.session.run(net.net.get_layer("x").params["W"]), batch_of(padding={"float32": 0.0, "int32": 0})
    result = net.run(batch)
    source = batch["data"] if key == "data" else numpy.eye(5)[batch["ids"]]
    is_frame = (numpy.arange(max(LENGTHS))[None] < numpy.array(LENGTHS)[:, None])[..., None]
    numpy.testing.assert_allclose(result["x"], source @ weights.T * is_frame, rtol=1e-4, atol=1e-5)
    numpy.testing.assert_allclose(result["y"], source @ weights.T @ weights * is_frame, rtol=1e-4, atol=1e-5)


ATTENTION = {"class": "self_attention", "num_heads": 1, "total_key_dim": 4}


@pytest.mark.parametrize(
    ("options", "is_sparse"),
    [({"class": "linear"}, False), ({"class": "linear"}, True), ({"class": "softmax"}, False), (ATTENTION, False)],
)
def test_the_time_dim_stays_the_one_that_was_said(options, is_sparse):
    """Of two dims with lengths, the first one is the time, if nobody says another one."""
    parts, time, features = SpatialDim("parts"), SpatialDim("time"), FeatureDim("features", 4)
    dims = [batch_dim, parts, time]
    two = {"dim_tags": dims, "sparse_dim": features} if is_sparse else {"dim_tags": [*dims, features]}
    net_dict = {
        "as_time": {"class": "reinterpret_data", "from": "data:two", "set_axes": {"T": time}},
        "output": {"from": "as_time", "n_out": 4, **options},
    }
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        BehaviorVersion.reset()
        net = TFNetwork(config=Config({"extern_data": {"two": two, "data": two}}), eval_flag=True)
        net.construct_from_dict(net_dict)
        assert net.get_layer("output").output.get_time_dim_tag() == time


def test_square_weights_of_a_variable_are_those_of_a_linear_layer():
    """The dim of both axes is the same one. The first of them, with the higher priority, is the one to sum over."""
    feature = FeatureDim("in", 6)
    net_dict = {
        "in": {"class": "linear", "out_dim": feature, "activation": None, "from": "data"},
        "weight": {"class": "variable", "shape": [feature, feature], "init": "glorot_uniform"},
        "dot": {"class": "dot", "from": ["in", "weight"], "reduce": feature},
    }
    result = LayerNet(net_dict).run(batch_of(padding={"float32": 0.0, "int32": 0}))
    numpy.testing.assert_allclose(result["dot"], result["in"] @ result["weight"], rtol=1e-5, atol=1e-6)
