"""Layers made by calling their classes, as scripts and other projects do, are the layers of the net dict."""

import contextlib
import subprocess
import sys

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import Tensor as Data
from returnn.tf.layers.base import InternalLayer
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.network import ExternData, TFNetwork

tf1 = tf.compat.v1
LENGTHS = [5, 3]
VALUES = numpy.random.RandomState(1).normal(size=(2, 5, 4)).astype("float32")  # (B, T, F)

LAYERS = {
    "activation": {"activation": "tanh"},
    "batch_norm": {},
    "cast": {"dtype": "int32"},
    "copy": {},
    "cumsum": {"axis": "T"},
    "eval": {"eval": "source(0) * 2"},
    "expand_dims": {"axis": "spatial"},
    "layer_norm": {},
    "length": {},
    "linear": {"n_out": 3, "activation": "relu"},
    "merge_dims": {"axes": ["B", "T"]},
    "pad": {"axes": "T", "padding": (1, 2)},
    "reduce": {"mode": "mean", "axis": "T"},
    "rec": {"unit": "nativelstm2", "n_out": 3},
    "seq_len_mask": {"mask_value": 0.0},
    "slice": {"axis": "T", "slice_start": 1},
    "softmax_over_spatial": {},
    "split_dims": {"axis": "F", "dims": (2, 2)},
    "swap_axes": {"axis1": "T", "axis2": "B"},
    "window": {"window_size": 3},
}


@contextlib.contextmanager
def new_session():
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        yield session


def run(session, layer, feed=None):
    """:return: the output with the batch axis first; lengths behind the end of a sequence say nothing"""
    for i, param in enumerate(sorted(layer.params.values(), key=lambda param: param.name)):
        session.run(param.initializer)
        param.load(numpy.random.RandomState(i).uniform(-0.5, 0.5, size=param.shape), session)
    output = layer.output.copy_as_batch_major() if layer.output.have_batch_axis() else layer.output
    return session.run(output.raw_tensor, feed)


def by_hand(layer_class: type[LayerBase], options):
    with new_session() as session:
        network = TFNetwork(config=Config(), extern_data=ExternData())
        source = InternalLayer(name="source", network=network, out_type={"shape": (None, 4), "dim": 4})
        source.output.placeholder = tf.constant(VALUES)
        source.output.size_placeholder = {0: tf.constant(LENGTHS)}
        options = {"name": "layer", "network": network, "sources": [source], **options}
        output = layer_class.get_out_data_from_opts(**options)
        with tf1.variable_scope("layer"):
            layer = layer_class(output=output, **options)
        return run(session, layer)


def by_net_dict(class_name, options):
    with new_session() as session:
        network = TFNetwork(config=Config({"extern_data": {"data": {"dim": 4}}}))
        network.construct_from_dict(
            {"layer": {"class": class_name, "from": "data", "is_output_layer": True, **options}}
        )
        data = network.extern_data.data["data"]
        feed = {data.placeholder: VALUES, data.size_placeholder[0]: LENGTHS}
        return run(session, network.layers["layer"], feed)


@pytest.mark.parametrize("class_name", LAYERS)
def test_layer_by_hand_is_that_of_the_net_dict(class_name):
    made = by_hand(get_layer_class(class_name), LAYERS[class_name])
    numpy.testing.assert_allclose(made, by_net_dict(class_name, LAYERS[class_name]), rtol=1e-5, atol=1e-6)


def test_the_size_of_the_batch_need_not_be_fed():
    with new_session() as session:
        network = TFNetwork(config=Config({"extern_data": {"data": {"dim": 4}}}))
        network.construct_from_dict({"output": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data"}})
        network.initialize_params(session)
        data = network.extern_data.data["data"]
        feed = {data.placeholder: VALUES, data.size_placeholder[0]: LENGTHS}
        output = network.get_default_output_layer().output.copy_as_batch_major()
        assert session.run(output.placeholder, feed).shape == (2, 5, 3)
        assert session.run(data.get_batch_dim(), feed) == 2


def test_data_that_is_registered_by_hand_has_a_batch_size():
    with new_session() as session:
        network = TFNetwork(config=Config(), extern_data=ExternData())
        data = Data(name="data", shape=(None, 4), dim=4, auto_create_placeholders=True)
        network.extern_data.register_data(data)
        network.construct_from_dict({"output": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data"}})
        network.initialize_params(session)
        feed = {data.placeholder: VALUES, data.size_placeholder[0]: LENGTHS}
        output = network.get_default_output_layer().output.copy_as_batch_major()
        assert session.run(output.placeholder, feed).shape == (2, 5, 3)


def test_placeholders_can_be_made_outside_of_a_graph():
    code = "import returnn.tf.network, tensorflow as tf; print(tf.compat.v1.placeholder('float32', (None, 3)).shape)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "(None, 3)\n"
