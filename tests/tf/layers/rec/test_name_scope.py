"""The option `name_scope` of layers with a unit: it stands for their name and for "rec"."""

import numpy
import pytest

from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences

STEP = {"class": "linear", "activation": "tanh", "from": ["data:source", "prev:x"], "n_out": 4}


def loop(step, **options):
    return {"class": "rec", "from": "data", "unit": {"x": step, "output": {"class": "copy", "from": "x"}}, **options}


@pytest.mark.parametrize(
    ("outer", "inner", "scope"),
    [
        ({}, {}, "output/rec/x"),
        ({"name_scope": "a"}, {}, "a/x"),
        ({"name_scope": "/a/b"}, {}, "a/b/x"),
        ({"name_scope": ""}, {}, "x"),
        ({"name_scope": "a"}, {"name_scope": ""}, "a"),
        ({"name_scope": "a"}, {"name_scope": "y"}, "a/y"),
        ({"name_scope": "a"}, {"name_scope": "/y"}, "y"),
        ({}, {"name_scope": "y"}, "output/rec/y"),
        ({}, {"name_scope": ""}, "output/rec"),
    ],
    ids=str,
)
@pytest.mark.parametrize("optimize", [True, False])
def test_scope_of_layers_in_a_loop(outer, inner, scope, optimize):
    net = RecurrentNet({"output": loop({**STEP, **inner}, optimize_move_layers_out=optimize, **outer)})
    assert set(net.variables) == {f"{scope}/W", f"{scope}/b"}


@pytest.mark.parametrize(
    ("name_scope", "scope"), [(None, "output/rec/"), ("a", "a/"), ("a/rec", "a/rec/"), ("/a", "a/"), ("", "")]
)
def test_scope_of_a_unit(name_scope, scope):
    unit = {"class": "rec", "unit": "nativelstm2", "from": "data", "n_out": 4, "name_scope": name_scope}
    net = RecurrentNet({"output": {**unit, "initial_state": "var"}})
    assert set(net.variables) == {scope + name for name in ("W", "W_re", "b", "initial_c", "initial_h")}


def test_loops_in_the_same_scope_share_all_parameters():
    net_dict = {"first": loop(STEP), "second": loop(STEP, name_scope="first/rec")}
    net_dict["output"] = {"class": "combine", "kind": "sub", "from": ["first", "second"]}
    net = RecurrentNet(net_dict, fetch=("output", "first"))
    assert set(net.variables) == {"first/rec/x/W", "first/rec/x/b"}
    data, lengths = sequences()
    result = net.run(data, lengths)
    numpy.testing.assert_allclose(result.output, 0, atol=1e-6)
    assert numpy.abs(result.out["first"]).max() > 0


def test_a_loop_in_a_loop():
    inner = loop({**STEP, "from": ["data:source", "prev:x"]}, name_scope="b")
    unit = {"i": {**inner, "from": "base:data"}, "output": {"class": "reduce", "mode": "max", "axis": "T", "from": "i"}}
    net = RecurrentNet({"output": {"class": "rec", "from": "data", "unit": unit, "name_scope": "a"}})
    assert set(net.variables) == {"a/b/x/W", "a/b/x/b"}
