"""How the dims of a time step become known that needs its own past."""

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import batch_dim
from returnn.tf.network import TFNetwork
from returnn.tf.util.data import FeatureDim, SpatialDim
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences


def linear(source, **options):
    return {"class": "linear", "activation": "tanh", "n_out": 4, "from": source, **options}


def loop(unit):
    return {"output": {"class": "rec", "from": "data", "unit": unit}}


SAME = {
    "activation": {"class": "activation", "activation": "tanh", "from": "hidden"},
    "copy of copy": {"class": "copy", "from": "copied"},
    "sum": {"class": "combine", "kind": "add", "from": ["hidden", "second"]},
    "expression": {"class": "eval", "eval": "source(0) * 2.", "from": "hidden"},
}


@pytest.mark.parametrize("output", SAME.values(), ids=SAME)
def test_a_layer_of_which_only_the_sources_have_a_size(output):
    unit = {
        "hidden": linear(["prev:output"], activation="sigmoid"),
        "second": linear(["hidden"]),
        "copied": {"class": "copy", "from": "hidden"},
        "output": output,
    }
    data, lengths = sequences()
    with_size = {**unit, "output": {**output, "n_out": 4}}
    results = [RecurrentNet(loop(layers)).run(data, lengths).output for layers in (unit, with_size)]
    numpy.testing.assert_array_equal(*results)
    assert results[0].std() > 0


def test_dims_that_differ_from_those_of_the_sources():
    output = {"class": "reduce_out", "mode": "max", "num_pieces": 2, "from": "hidden"}
    unit = {"hidden": linear("prev:output"), "output": output}
    data, lengths = sequences()
    net = RecurrentNet(loop(unit))
    assert net.variables["output/rec/hidden/W"].shape.as_list() == [2, 4]
    assert net.run(data, lengths).output.shape[2:] == (2,)


@pytest.mark.parametrize(
    ("code", "out_type", "shape"),
    [
        ("source(0)[..., 0]", {"shape": (), "dim": None}, ()),
        ("source(0)[..., :2]", {"shape": (2,), "dim": 2}, (2,)),
        ("tf.cast(source(0)[..., 0] > 0., tf.int32)", {"shape": (), "sparse": True, "dim": 2, "dtype": "int32"}, ()),
        ("source(0)[..., None]", {"shape": (3, 1), "dim": 1, "time_dim_axis": None}, (3, 1)),
        ("source(0) > 0.", {"dtype": "bool"}, (3,)),
    ],
)
def test_out_type_of_code_in_a_loop_is_about_a_frame(code, out_type, shape):
    data, lengths = sequences()
    unit = {"output": {"class": "eval", "from": "data:source", "eval": code, "out_type": out_type}}
    inside, outside = (
        RecurrentNet({"output": {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": optimize}})
        .run(data, lengths)
        .output
        for optimize in (False, True)
    )
    assert inside.shape == (3, 6, *shape)
    for b, length in enumerate(lengths):
        numpy.testing.assert_array_equal(inside[b, :length], outside[b, :length])


ATTENTION = {
    "energy": {
        "class": "dot", "from": ["base:encoder", "query"], "red1": "F", "red2": "F", "var1": "T", "var2": None,
        "add_var2_if_empty": False,
    },
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
    "output": linear(["att", "data:source"]),
}  # fmt: skip


def attention_loop(**layers):
    return {"encoder": linear("data"), "output": {"class": "rec", "from": "data", "unit": {**ATTENTION, **layers}}}


def test_attention_whose_query_is_made_of_the_attention_before():
    data, lengths = sequences()
    net = RecurrentNet(attention_loop(query=linear("prev:att")))
    assert net.variables["output/rec/query/W"].shape.as_list() == [4, 4]
    given = RecurrentNet(attention_loop(query=linear("prev:att"), att={**ATTENTION["att"], "n_out": 4}))
    numpy.testing.assert_array_equal(net.run(data, lengths).output, given.run(data, lengths).output)


def test_a_window_of_weights_which_begins_where_the_weights_before_say():
    layers = {
        "query": linear("prev:output"),
        "best": {"class": "reduce", "mode": "argmax", "axes": "T", "from": "prev:weights", "initial_output": 0},
        "start": {"class": "eval", "from": "best", "eval": "source(0)", "out_type": {"sparse": False, "dim": None}},
        "weights": {**ATTENTION["weights"], "window_start": "start", "window_size": 1, "is_output_layer": True},
    }
    data, lengths = sequences()
    weights = RecurrentNet(attention_loop(**layers), fetch=("output/weights",)).run(data, lengths).out["output/weights"]
    assert weights.shape[1:] == (data.shape[1], data.shape[1])
    for b, length in enumerate(lengths):
        expected = numpy.zeros(data.shape[1])
        expected[0] = 1  # weights before the first frame are zero, the first one is the best, and stays it
        numpy.testing.assert_allclose(weights[b, :length], [expected] * length)


def subnetwork(layers):
    return {"class": "subnetwork", "from": "data", "subnetwork": layers}


INSIDE = {
    "sized output": subnetwork({"output": linear("data")}),
    "sized layer": subnetwork({"x": linear("data"), "output": {"class": "copy", "from": "x"}}),
    "several layers": subnetwork(
        {
            "copied": {"class": "copy", "from": "data"},
            "x": linear("copied"),
            "y": {"class": "activation", "activation": "relu", "from": "x"},
            "output": {"class": "copy", "from": "y"},
        }
    ),
    "subnetwork": subnetwork(
        {"x": subnetwork({"output": linear("data")}), "output": {"class": "copy", "from": "x"}},
    ),
}


@pytest.mark.parametrize("net", INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize("is_masked", [False, True])
def test_a_network_that_needs_only_its_own_past(net, is_masked):
    always = {"mask": {"class": "compare", "from": "mean", "kind": "greater", "value": -9.0}}
    layers = {
        "mean": {"class": "reduce", "mode": "mean", "axis": "F", "from": "data:source"},
        **always,
        "net": {"class": "masked_computation", "mask": "mask", "from": "prev:net", "unit": net}
        if is_masked
        else {**net, "from": "prev:net"},
        "inputs": linear("data:source", activation=None),
        "output": {"class": "combine", "kind": "add", "from": ["net", "inputs"]},
    }
    data, lengths = sequences()
    with_size = {**layers, "net": {**layers["net"], "out_type": {"dim": 4}}}
    results = [RecurrentNet(loop(unit)).run(data, lengths).output for unit in (layers, with_size)]
    numpy.testing.assert_array_equal(*results)
    assert results[0].std() > 0


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("output", [linear("data:source"), {"class": "copy", "from": "data:source"}], ids=str)
def test_the_time_of_all_frames_is_the_dim_of_the_loop(output, optimize):
    """Also where a frame has another time dim, and the layer is moved out of the loop."""
    parts, time = SpatialDim("parts"), SpatialDim("time")
    data = {"dim_tags": [batch_dim, parts, time, FeatureDim("features", 4)], "time_dim_axis": 2}
    loop_over_parts = {**loop({"output": output})["output"], "axis": parts, "optimize_move_layers_out": optimize}
    with tf.Graph().as_default():
        net = TFNetwork(config=Config({"extern_data": {"data": data}}), eval_flag=True)
        net.construct_from_dict({"output": loop_over_parts})
        assert net.get_default_output_layer().output.get_time_dim_tag() == parts
