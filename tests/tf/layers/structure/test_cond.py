"""Which of the two layers of a "cond" are made."""

import numpy
import pytest

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
