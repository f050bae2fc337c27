"""`VariableLayer`, and layers that change or read it."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.util.errors import ConfigError, UserError
from tests.tf.layers.layer_net import LayerNet, batch_of, construct

ROW, COLUMN = Dim(2, name="row"), Dim(3, name="column", kind=Dim.Types.Feature)
VALUES = numpy.arange(6, dtype="float32").reshape(3, 2)
TURNED = {"class": "constant", "value": VALUES, "shape": [COLUMN, ROW], "dtype": "float32"}
OTHER_DIMS = {"class": "constant", "value": VALUES.T, "dtype": "float32"}
VARIABLE = {"class": "variable", "shape": [ROW, COLUMN], "trainable": False}


@pytest.mark.parametrize("value", [TURNED, OTHER_DIMS])
def test_axes_of_the_initial_value_are_found_by_their_dims_or_else_by_their_order(value):
    result = LayerNet({"value": value, "var": {**VARIABLE, "init_by_layer": "value"}}).run(batch_of())
    numpy.testing.assert_array_equal(result["var"], VALUES.T)


@pytest.mark.parametrize(("op", "expected"), [("assign", VALUES.T), ("add", 1 + VALUES.T), ("sub", 1 - VALUES.T)])
def test_axes_of_an_assigned_value_are_found_by_their_dims(op, expected):
    assign = {"class": "variable_assign", "var": "var", "value": "value", "op": op}
    read = {"class": "variable_read", "var": "var", "control_dependencies": "assign"}
    net_dict = {"value": TURNED, "var": {**VARIABLE, "init": 1.0}, "assign": assign, "read": read}
    numpy.testing.assert_array_equal(LayerNet(net_dict, fetch=("read",)).run(batch_of())["read"], expected)


def test_each_step_assigns_also_if_nothing_needs_it():
    net_dict = {
        "count": {"class": "variable", "shape": (), "init": 0, "dtype": "int32", "trainable": False},
        "one": {"class": "constant", "value": 1},
        "assign": {"class": "variable_assign", "var": "count", "value": "one", "op": "add"},
    }
    net = LayerNet(net_dict, fetch=("count",))
    with net.graph.as_default():
        fetches, net.fetches = net.fetches, {"after_step": net.net.get_post_control_dependencies()}
    for _ in range(3):
        net.run(batch_of())
    assert net.session.run(fetches["count"]) == 3


def test_assigned_value_of_other_size():
    assign = {"class": "variable_assign", "var": "var", "value": "data:vec"}
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        construct({"var": VARIABLE, "output": assign})
    assert str(info.value).startswith("layer 'output' (class 'variable_assign'): layer 'data:vec'")
    assert "but [2, 3] is needed" in str(info.value)


def test_an_assignment_is_after_what_it_has_to_wait_for():
    """Its value was computed from the variable before, and so is what it waits for."""
    net_dict = {
        "count": {"class": "variable", "shape": (), "init": 1.0, "trainable": False},
        "two": {"class": "constant", "value": 2.0},
        "three": {"class": "constant", "value": 3.0},
        "doubled": {"class": "variable_assign", "var": "count", "value": "three", "op": "add"},
        "set": {"class": "variable_assign", "var": "count", "value": "two", "control_dependencies": "doubled"},
        "added": {
            "class": "variable_assign", "var": "count", "value": "three", "op": "add",
            "control_dependencies": ["set", "doubled"],
        },
        "read": {"class": "variable_read", "var": "count", "control_dependencies": "added"},
    }  # fmt: skip
    net = LayerNet(net_dict, fetch=("read",))
    assert [net.run(batch_of())["read"] for _ in range(3)] == [5.0, 5.0, 5.0]


def test_checkpoints_are_without_a_variable_that_is_not_saveable(tmp_path):
    net_dict = {
        "kept": {"class": "variable", "shape": (), "init": 1.0},
        "left_out": {"class": "variable", "shape": (), "init": 2.0, "saveable": False},
    }
    net = LayerNet(net_dict)
    with net.graph.as_default():
        net.net.save_params_to_file(str(tmp_path / "model"), session=net.session)
        assert [name for name, _ in tf.train.list_variables(str(tmp_path / "model"))] == ["kept/kept"]
        for layer, value in (("kept", 7.0), ("left_out", 8.0)):
            net.net.get_layer(layer).variable().load(value, net.session)
        net.net.load_params_from_file(str(tmp_path / "model"), session=net.session)
    result = net.run(batch_of())
    assert (result["kept"], result["left_out"]) == (1.0, 8.0)


@pytest.mark.parametrize("is_critical", [False, True])
def test_a_checkpoint_need_not_have_a_variable_that_is_not_critical(tmp_path, is_critical):
    old = {"kept": {"class": "variable", "shape": (), "init": 1.0}}
    new = {**old, "new": {**old["kept"], "init": 2.0, "non_critical_for_restore": not is_critical}}
    net = LayerNet(old)
    with net.graph.as_default():
        net.net.save_params_to_file(str(tmp_path / "model"), session=net.session)
    net = LayerNet({**new, "kept": {**old["kept"], "init": 5.0}})
    with net.graph.as_default():
        if is_critical:
            with pytest.raises(UserError, match="new/new"):
                net.net.load_params_from_file(str(tmp_path / "model"), session=net.session)
            return
        net.net.load_params_from_file(str(tmp_path / "model"), session=net.session)
    result = net.run(batch_of())
    assert (result["kept"], result["new"]) == (1.0, 2.0)
