"""Which of the two layers of a "cond" are made."""

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LayerNet, batch_of

DENSE = {"class": "linear", "activation": None, "n_out": 4, "from": "data"}
INSIDE = {"hidden": {**DENSE, "n_out": 3}, "output": {**DENSE, "from": "hidden"}}
BRANCHES = {"true_layer": {"class": "subnetwork", "from": "data", "subnetwork": INSIDE}, "false_layer": DENSE}
COND = {"class": "cond", "from": [], "condition": "flag", **BRANCHES}
FLAGS = {
    "constant": lambda value: ({"class": "constant", "value": value, "dtype": "bool"}, {}),
    "train_flag": lambda value: ({"class": "train_flag"}, {"train_flag": value}),
    "of a constant": lambda value: ({"class": "compare", "from": "zero", "value": int(not value)}, {}),
}


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("kind", FLAGS)
def test_a_layer_that_is_never_computed_is_not_made(kind, value):
    flag, options = FLAGS[kind](value)
    zero = {"class": "constant", "value": 0, "dtype": "int32"}
    net = LayerNet({"zero": zero, "flag": flag, "x": COND}, fetch=("x",), **options)
    names = {param.op.name for param in net.net.get_params_list()}
    layers = ["x/hidden", "x/output"] if value else ["x"]
    assert names == {f"{layer}/{name}" for layer in layers for name in "Wb"}
    params = {param.op.name: net.session.run(param) for param in net.net.get_params_list()}
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    wanted = batch["data"]
    for layer in layers:
        wanted = wanted @ params[f"{layer}/W"]  # the biases are 0
    numpy.testing.assert_allclose(net.run(batch)["x"], wanted, rtol=1e-4, atol=1e-5)


def test_both_layers_are_made_where_it_depends_on_data():
    flag = {"class": "compare", "from": "largest", "kind": "greater", "value": 3}
    largest = {"class": "reduce", "mode": "max", "axes": ["B", "T"], "from": "data:ids"}
    net = LayerNet({"largest": largest, "flag": flag, "x": COND}, fetch=("x",))
    names = {param.op.name for param in net.net.get_params_list()}
    assert names == {f"{layer}/{name}" for layer in ("x", "x/hidden", "x/output") for name in "Wb"}


def test_both_layers_share_parameters_so_these_have_one_shape():
    net = {
        "largest": {"class": "reduce", "mode": "max", "axes": ["B", "T"], "from": "data:ids"},
        "flag": {"class": "compare", "from": "largest", "kind": "greater", "value": 3},
        "narrow": {**DENSE, "n_out": 3},
        "x": {**COND, "true_layer": DENSE, "false_layer": {**DENSE, "from": "narrow"}},
    }
    message = r"the parameter 'x/W' would have the shape \(3, 4\).*\n.*found shape \(6, 4\)(.|\n)*another 'name_scope'"
    with pytest.raises(ConfigError, match=message):
        LayerNet(net)
    net["x"]["false_layer"]["name_scope"] = "other"
    assert "other/W" in {param.op.name for param in LayerNet(net).net.get_params_list()}


def in_two_conditions(layer, source):
    """:return: the layer in a condition in a condition, both depend on data"""
    largest = {"class": "reduce", "mode": "max", "axes": ["B", "T"], "from": "base:data:ids"}
    flag = {"class": "compare", "from": "largest", "kind": "less", "value": 100}
    inner = {"class": "cond", "from": [], "condition": "flag", "true_layer": layer}
    inner["false_layer"] = {"class": "linear", "n_out": 6, "from": source}
    return {
        "largest": largest,
        "flag": flag,
        "x": {**inner, "true_layer": inner},
    }


def test_losses_in_a_condition_in_a_condition_count():
    layer = {**DENSE, "n_out": 6, "forward_weights_init": 0.1, "loss": "mse", "target": "data", "L2": 0.5}
    nested = in_two_conditions(layer, "data")
    nested["largest"] = {**nested["largest"], "from": "data:ids"}
    results = []
    for net_dict in (nested, {"x": layer}):
        net = LayerNet(net_dict, fetch=("x",), train_flag=True)
        with net.graph.as_default():
            net.fetches = net.net.get_objective()
        results.append(net.run(batch_of(padding={"float32": 0.0, "int32": 0})))
    numpy.testing.assert_allclose(*results, rtol=1e-5)
    assert results[0] > 1.0
