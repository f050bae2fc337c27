"""Layers that change a parameter themselves, where it comes from a layer of class "variable" (`reuse_params`)."""

import numpy
import pytest

import returnn.frontend as rf
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LayerNet, batch_of

NORM = {"class": "batch_norm", "use_std": False, "use_shift": False, "masked_time": True, "momentum": 0.1}
INITIAL = {"batch_norm/v2_mean": 0.0, "batch_norm/v2_variance": 1.0}


def values_after_steps(layers, names):
    """:return: values of parameters after two steps of training"""
    net = LayerNet(layers, fetch=("output",), train_flag=True)
    with net.graph.as_default(), rf.backend_ctx("tf"):
        net.net.get_losses_initialized(with_total=True)
        updates = [*net.net.get_post_control_dependencies()]
        params = {param.op.name: param for param in net.net.get_params_list()}
    net.fetches["updates"] = updates
    for seed in (1, 2):
        net.run(batch_of(seed=seed, padding={"float32": 1e3, "int32": 4}))
    return [net.session.run(params[name]) for name in names]


def with_variables(base=""):
    """:return: batch normalization, and its parameters as layers"""
    names = {key: key.rsplit("/", 1)[-1] for key in INITIAL}
    variables = {
        names[key]: {"class": "variable", "shape": (6,), "init": value, "trainable": False, "param_name": "param"}
        for key, value in INITIAL.items()
    }
    shared = {key: {"layer_output": base + name} for key, name in names.items()}
    return {**NORM, "reuse_params": {"map": shared}}, variables


def test_batch_norm_changes_the_variables_that_it_takes():
    norm, variables = with_variables()
    shared = values_after_steps(
        {**variables, "output": {**norm, "from": "data"}}, [f"{name}/param" for name in variables]
    )
    own = values_after_steps({"output": {**NORM, "from": "data"}}, [f"output/{name}" for name in INITIAL])
    numpy.testing.assert_allclose(shared, own, rtol=1e-6)
    assert abs(shared[0]).min() > 0


def test_batch_norm_in_a_loop_changes_the_variables_around_it():
    def loop(norm):
        unit = {
            "sum": {"class": "combine", "kind": "add", "from": ["data:source", "prev:sum"]},
            "norm": {**norm, "from": "sum"},
            "output": {"class": "combine", "kind": "add", "from": ["norm", "prev:output"]},
        }
        return {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": False}

    norm, variables = with_variables("base:")
    shared = values_after_steps({**variables, "output": loop(norm)}, [f"{name}/param" for name in variables])
    own = values_after_steps({"output": loop(NORM)}, [f"output/rec/norm/{name}" for name in INITIAL])
    numpy.testing.assert_allclose(shared, own, rtol=1e-6)
    assert abs(shared[0]).min() > 0


def test_values_that_are_computed_cannot_be_changed():
    norm, variables = with_variables()
    variables["v2_mean"] = {"class": "constant", "shape": (6,), "value": 0.0, "dtype": "float32"}
    with pytest.raises(ConfigError) as info:
        LayerNet({**variables, "output": {**norm, "from": "data"}}, train_flag=True)
    assert "layer 'output' (class 'batch_norm'): reuse_params: training changes 'batch_norm/v2_mean'" in str(info.value)
    assert "give a layer of class 'variable'" in str(info.value)
