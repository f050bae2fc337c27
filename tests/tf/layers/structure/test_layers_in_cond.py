"""Layers compute in a condition what they compute outside of it, and so do layers after it."""

import numpy
import pytest

from tests.tf.layers import shape_cases
from tests.tf.layers.layer_net import LayerNet, batch_of

LEFT_OUT = ("flat_twice", "unflat_once", "unflat_twice")  # which layer has made a batch is known once
RECURRENT = {
    "self_attention": {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 6, "from": "data"},
    "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "direction": -1, "from": "data"},
    "positions": {"class": "relative_positional_encoding", "n_out": 3, "from": "data"},
}


def in_conditions(cases):
    """:return: the layers, and each of them as both layers of a condition which is not known before it is computed"""
    net = {
        **cases,
        "large": {"class": "compare", "kind": "greater", "value": 100.0, "from": "data:vec"},
        "flag": {"class": "reduce", "mode": "any", "axis": ["B", "F"], "from": "large"},
    }
    classes = {layer["class"]: name for name, layer in reversed(cases.items()) if name not in LEFT_OUT}
    for layer_class, name in classes.items():  # one case of each
        branch = {**cases[name], "name_scope": f"{name}/rec" if layer_class == "rec" else name}
        net[f"{name} in cond"] = {
            "class": "cond", "from": [], "condition": "flag", "true_layer": branch, "false_layer": branch,
        }  # fmt: skip
    return net


@pytest.mark.parametrize("cases", [shape_cases.ALL_CASES, RECURRENT], ids=["shapes", "recurrent"])
def test_layers_in_a_condition_compute_what_they_do_outside(cases):
    net = LayerNet(in_conditions(cases))
    values = net.run(batch_of(padding={"float32": 0.0, "int32": 0}))
    for name in [name for name in values if f"{name} in cond" in values]:
        inside, outside = (net.outputs[key] for key in (f"{name} in cond", name))
        assert len(inside.dims) == len(outside.dims), name
        numpy.testing.assert_allclose(values[f"{name} in cond"], values[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_frames_of_different_layers_are_those_of_the_one_that_is_computed():
    net = {
        "total": {"class": "reduce", "mode": "sum", "axis": ["B", "F"], "from": "data:vec"},
        "flag": {"class": "compare", "kind": "greater", "value": 0.0, "from": "total"},
        "x": {
            "class": "cond", "from": [], "condition": "flag",
            "true_layer": {"class": "slice", "axis": "T", "slice_start": 1, "from": "data"},
            "false_layer": {"class": "repeat", "repetitions": "data:number", "from": "data"},
        },
        "frames": {"class": "length", "from": "x"},
        "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "x"},
    }  # fmt: skip
    layers = LayerNet(net, fetch=("frames", "mean"))
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    for sign in (1, -1):
        values = layers.run({**batch, "vec": sign * abs(batch["vec"])})
        wanted = [length - 1 for length in (5, 3, 4)] if sign == 1 else batch["number"] * numpy.array([5, 3, 4])
        numpy.testing.assert_array_equal(values["frames"], wanted)


def test_what_both_layers_ask_for_first_is_made_around():
    """What is first asked for inside of a branch would be part of it, and there for nobody else."""

    def branch(*names):
        total = {"class": "combine", "kind": "add", "from": list(names)}
        inner = {"total": total, "output": {"class": "copy", "from": "total"}}
        return {"class": "subnetwork", "from": [], "subnetwork": inner}

    net = {
        "large": {"class": "compare", "kind": "greater", "value": 100.0, "from": "data:vec"},
        "flag": {"class": "reduce", "mode": "any", "axis": ["B", "F"], "from": "large"},
        "linear": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
        "sub": {"class": "subnetwork", "from": "linear", "subnetwork": {
            "inner": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
            "output": {"class": "activation", "activation": "exp", "from": "inner"},
        }},
        "x": {
            "class": "cond", "from": [], "condition": "flag",
            "true_layer": branch("base:sub/inner", "base:linear"),
            "false_layer": {"class": "subnetwork", "from": [], "subnetwork": {
                "nested": branch("base:base:linear", "base:base:sub/inner"),
                "output": {"class": "copy", "from": "nested"},
            }},
        },
        "wanted": {"class": "combine", "kind": "add", "from": ["sub/inner", "linear"]},
    }  # fmt: skip
    values = LayerNet(net, fetch=("x", "wanted")).run(batch_of(padding={"float32": 0.0, "int32": 0}))
    numpy.testing.assert_allclose(values["x"], values["wanted"], rtol=1e-5)
