"""`"trainable": False`: of a layer, of a unit, and of a subnetwork around."""

import pytest

from returnn.tf.layers.rec import BaseRNNCell
from returnn.tf.layers.rec.units.registry import known_units
from tests.tf.layers.rec.recurrent_net import construct, tf, tf1

UNITS = [unit for unit in known_units() if unit != "blocksparsemultiplicativemultisteplstm"]  # without a kernel
BEHIND = {"class": "linear", "activation": None, "n_out": 2, "from": "unit"}


class OwnCell(BaseRNNCell):
    """Adds up its inputs, after a product."""

    def __init__(self, num_units, **kwargs):
        super().__init__(**kwargs)
        self.num_units = num_units

    state_size = output_size = property(lambda self: self.num_units)

    def call(self, inputs, state):
        kernel = tf1.get_variable("kernel", [inputs.shape[-1], self.num_units])
        return (new := state + tf.matmul(inputs, kernel)), new


def trained(net_dict):
    """:return: names of the layers with parameters that training changes, and of all others with parameters"""
    with tf.Graph().as_default():
        net = construct(net_dict, train=True)
        trained = {param.op.name.split("/")[0] for param in net.get_trainable_params()}
        return trained, {param.op.name.split("/")[0] for param in net.get_params_list()} - trained


def layer(unit, cls="rec", **options):
    return {"class": cls, "unit": unit, "n_out": 4, "from": "data", **options}


@pytest.mark.parametrize("cls", ["rec", "rnn_cell"])
@pytest.mark.parametrize("unit", [*UNITS, OwnCell])
def test_a_layer_freezes_each_unit(unit, cls):
    assert trained({"unit": layer(unit, cls), "output": BEHIND}) == ({"unit", "output"}, set())
    assert trained({"unit": layer(unit, cls, trainable=False), "output": BEHIND}) == ({"output"}, {"unit"})


@pytest.mark.parametrize("unit", ["gru", "standardlstm", "blocksparselstm", OwnCell])
def test_a_unit_can_be_frozen_and_cannot_melt_its_layer(unit):
    opts = {"unit_opts": {"trainable": False}}
    assert trained({"unit": layer(unit, **opts), "output": BEHIND}) == ({"output"}, {"unit"})
    opts = {"unit_opts": {"trainable": True}, "trainable": False}
    assert trained({"unit": layer(unit, **opts), "output": BEHIND}) == ({"output"}, {"unit"})


def test_a_unit_is_frozen_in_a_frozen_subnetwork_and_loop():
    inner = {"output": layer("gru")}
    subnetwork = {"class": "subnetwork", "from": "data", "subnetwork": inner, "trainable": False}
    assert trained({"unit": subnetwork, "output": BEHIND}) == ({"output"}, {"unit"})
    step = {"output": layer("gru", "rnn_cell", **{"from": "data:source"})}
    loop = {"class": "rec", "from": "data", "unit": step, "trainable": False}
    assert trained({"unit": loop, "output": BEHIND}) == ({"output"}, {"unit"})
    step["output"]["trainable"] = False
    assert trained({"unit": {**loop, "trainable": True}, "output": BEHIND}) == ({"output"}, {"unit"})
