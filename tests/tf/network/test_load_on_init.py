"""A subnetwork that starts from the parameters of another model."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1
DATA = {"data": {"dim": 3, "shape": (None, 3)}}
LAYERS = {
    "hid": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "data"},
    "output": {"class": "linear", "activation": None, "n_out": 2, "from": "hid"},
}


def values_after_init(net_dict, *, save_as=None, **options):
    """:return: values of the parameters by name"""
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        net = TFNetwork(config=Config({"extern_data": DATA}), eval_flag=True)
        net.construct_from_dict(net_dict)
        net.initialize_params(session, **options)
        if save_as is not None:
            net.save_params_to_file(save_as, session)
        return {param.op.name: session.run(param) for param in net.get_params_list()}


def net_with(load_on_init):
    sub = {"class": "subnetwork", "from": "data", "subnetwork": LAYERS, "load_on_init": load_on_init}
    return {"sub": sub, "output": {"class": "linear", "activation": None, "n_out": 5, "from": "sub"}}


@pytest.mark.parametrize("as_dict", [False, True], ids=["file name", "options"])
def test_parameters_inside_come_from_the_file(tmp_path, as_dict):
    filename = str(tmp_path / "model")
    saved = values_after_init(LAYERS, save_as=filename)
    values = values_after_init(net_with({"filename": filename, "ignore_missing": True} if as_dict else filename))
    assert set(values) == {f"sub/{name}" for name in saved} | {"output/W", "output/b"}
    for name, value in saved.items():
        numpy.testing.assert_array_equal(values[f"sub/{name}"], value)


def test_the_file_is_not_needed_for_what_a_training_goes_on_with(tmp_path):
    trained = [f"sub/{layer}/{name}" for layer in LAYERS for name in ("W", "b")]
    values_after_init(net_with(str(tmp_path / "removed")), trained=trained)


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(ConfigError) as info:
        values_after_init(net_with(str(tmp_path / "removed")))
    assert str(info.value).startswith("layer 'sub' (class 'subnetwork'): option 'load_on_init': checkpoint ")


def test_loading_by_hand_leaves_them_as_they_are(tmp_path):
    inner, outer = str(tmp_path / "inner"), str(tmp_path / "outer")
    saved = values_after_init(LAYERS, save_as=inner)
    output = {"class": "linear", "activation": None, "n_out": 2, "from": "data"}
    values_after_init({"output": output}, save_as=outer)
    net_dict = {"output": output, "sub": {**net_with(inner)["sub"], "is_output_layer": True}}
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        net = TFNetwork(config=Config({"extern_data": DATA}), eval_flag=True)
        net.construct_from_dict(net_dict)
        net.initialize_params(session)
        net.load_params_from_file(outer, session)
        values = net.layers["sub"].get_param_values_dict(session)
    numpy.testing.assert_array_equal(values["hid/W"], saved["hid/W"])


def test_no_file_in_load_on_init():
    with pytest.raises(ConfigError, match=r"option 'load_on_init' is \{'ignore_missing': True\}"):
        values_after_init(net_with({"ignore_missing": True}))


def test_unknown_option_of_load_on_init(tmp_path):
    with pytest.raises(ConfigError) as info:
        values_after_init(net_with({"filename": str(tmp_path / "model"), "ignore_mising": True}))
    assert str(info.value) == (
        "layer 'sub' (class 'subnetwork'): option 'load_on_init': there is no option 'ignore_mising'.\n"
        "  Did you mean 'ignore_missing' or 'ignore_params'?"
    )
