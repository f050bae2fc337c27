"""Parameters that layers of a loop share with each other, or with layers outside."""

import numpy
import pytest

from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, weights_for


def linear(source, **options):
    return {"class": "linear", "activation": "tanh", "from": source, "n_out": 4, **options}


def loop(unit, **options):
    return {"class": "rec", "from": "data", "unit": unit, **options}


def same_as_by_name_scope(net_dict, same_by_scope, *, shared):
    """Compares with the same net, whose parameters have the same names, and looks at those that there are."""
    data, lengths = sequences(n_in=4)
    nets = [RecurrentNet(net, n_in=4, with_grads=True) for net in (net_dict, same_by_scope)]
    assert {name.rpartition("/")[0] for name in nets[0].variables} == set(shared)
    weights = weights_for(lengths, data.shape[1])
    results = [net.run(data, lengths, weights=weights) for net in nets]
    numpy.testing.assert_allclose(results[0].output, results[1].output, rtol=1e-5, atol=1e-6)
    assert results[0].grads.keys() == results[1].grads.keys()
    for name, grad in results[0].grads.items():
        numpy.testing.assert_allclose(grad, results[1].grads[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimize", [True, False])
def test_layer_that_could_be_outside_takes_parameters_of_one_inside(optimize):
    def net(**options):
        unit = {
            "inside": linear("prev:output"),
            "outside": linear("data:source", **options),
            "output": {"class": "combine", "kind": "add", "from": ["inside", "outside"]},
        }
        return {"output": loop(unit, optimize_move_layers_out=optimize)}

    same_as_by_name_scope(net(reuse_params="inside"), net(name_scope="inside"), shared=["output/rec/inside"])


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("is_kept", [True, False])
def test_layers_behind_a_loop_take_parameters_of_one_inside(is_kept, optimize):
    def net(before, inside):
        hidden = linear(["data:source", "prev:hidden"], is_output_layer=is_kept)
        first = loop({"hidden": hidden, "output": {"class": "eval", "from": "hidden", "eval": "source(0) * 2."}})
        unit = {"x": linear(["data:source", "prev:x"], **inside), "output": {"class": "copy", "from": "x"}}
        return {
            "first": {**first, "optimize_move_layers_out": optimize},
            "next": linear(["first", "data"], **before),
            "output": {**loop(unit), "from": "next"},
        }

    same_as_by_name_scope(
        net({"reuse_params": "first/hidden"}, {"reuse_params": "base:first/hidden"}),
        net({"name_scope": "/first/rec/hidden"}, {"name_scope": "/first/rec/hidden"}),
        shared=["first/rec/hidden"],
    )


def test_function_gets_the_parameters_of_a_layer_inside_of_a_loop():
    def half(reuse_layer, **_):
        return reuse_layer.params["W"] * 0.5

    def net(**options):
        unit = {"hidden": linear(["data:source", "prev:hidden"]), "output": {"class": "copy", "from": "hidden"}}
        return {"loop": loop(unit), "output": linear(["loop", "data"], activation=None, with_bias=False, **options)}

    data, lengths = sequences(n_in=4)
    shared = {"map": {"W": {"reuse_layer": "loop/hidden", "custom": half}}}
    results = [
        RecurrentNet(net(**options), n_in=4).run(data, lengths).output
        for options in ({"reuse_params": shared}, {"name_scope": "/loop/rec/hidden"})
    ]
    numpy.testing.assert_allclose(results[0], results[1] * 0.5, rtol=1e-5, atol=1e-6)


def test_layer_takes_parameters_of_one_that_needs_it():
    def net(**options):
        return {"first": linear("data", **options), "output": linear("first")}

    same_as_by_name_scope(net(reuse_params="output"), net(name_scope="output"), shared=["output"])


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("read_by", ["nobody", "a layer before", "a layer behind"])
def test_layer_of_a_loop_takes_parameters_of_one_that_is_moved_out(read_by, optimize):
    def net(outside, **options):
        before = {"nobody": [], "a layer before": ["outside"], "a layer behind": []}[read_by]
        unit = {
            "outside": linear("data:source", **outside),
            "sum": {"class": "combine", "kind": "add", "from": ["data:source", "prev:inside", *before]},
            "inside": linear("sum", **options),
            "output": {
                "class": "combine",
                "kind": "add",
                "from": ["inside", "outside" if read_by == "a layer behind" else "data:source"],
            },
        }
        return {"output": loop(unit, optimize_move_layers_out=optimize)}

    for shared in ("outside", {"map": {"W": "outside", "b": {"reuse_layer": "outside"}}}):
        same_as_by_name_scope(
            net({"is_output_layer": True}, reuse_params=shared),
            net({"is_output_layer": True}, name_scope="outside"),
            shared=["output/rec/outside"],
        )


def test_unit_in_a_loop_takes_parameters_of_one_that_is_moved_out():
    def net(**options):
        cell = {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": "base:data", "direction": 1}
        unit = {
            "outside": {**cell, "is_output_layer": True},
            "start": {"class": "reduce", "mode": "mean", "axis": "T", "from": "outside"},
            "inside": {**cell, "from": "shifted", **options},
            "shifted": {"class": "combine", "kind": "add", "from": ["base:data", "prev:last"]},
            "last": {"class": "reduce", "mode": "mean", "axis": "T", "from": "inside"},
            "output": {"class": "combine", "kind": "add", "from": ["last", "start"]},
        }
        return {"output": loop(unit)}

    same_as_by_name_scope(net(reuse_params="outside"), net(name_scope="outside/rec"), shared=["output/rec/outside/rec"])


@pytest.mark.parametrize("optimize", [True, False])
def test_branch_of_a_condition_takes_parameters_of_a_layer_that_is_moved_out(optimize):
    def net(**options):
        unit = {
            "outside": linear("data:source"),
            "is_small": {
                "class": "eval",
                "from": "prev:sum",
                "eval": "tf.reduce_mean(source(0)) < 0.1",
                "out_type": {"shape": (), "batch_dim_axis": None, "dtype": "bool", "feature_dim_axis": None},
            },
            "inside": {
                "class": "cond",
                "from": [],
                "condition": "is_small",
                "true_layer": linear("prev:sum", **options),
                "false_layer": {"class": "copy", "from": "prev:sum"},
            },
            "sum": {"class": "combine", "kind": "add", "from": ["outside", "inside"]},
            "output": {"class": "copy", "from": "sum"},
        }
        return {"output": loop(unit, optimize_move_layers_out=optimize)}

    same_as_by_name_scope(net(reuse_params="outside"), net(name_scope="outside"), shared=["output/rec/outside"])
