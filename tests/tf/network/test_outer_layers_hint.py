"""A forgotten "base:" is suggested, in the graph and by `++task check`."""

import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.inspection.config_check import check_config
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError

EXTERN_DATA = {"data": {"dim": 3}}


def nets(source):
    step = {"output": {"class": "linear", "activation": None, "n_out": 2, "from": ["data:source", source]}}
    loop = {"class": "rec", "from": "data", "unit": step}
    outer = {"encoder": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"}}
    block = {"class": "subnetwork", "from": "data", "subnetwork": {"output": loop}}
    return {"base:": {**outer, "output": loop}, "base:base:": {**outer, "output": block}}


@pytest.mark.parametrize("prefix", nets(""))
def test_forgotten_base(prefix):
    net_dict = nets("encoder")[prefix]
    options = {"extern_data": EXTERN_DATA, "network": net_dict, "behavior_version": 30}
    hint = f"There is one outside of it: '{prefix}encoder'."
    assert any(hint in error for error in check_config(Config(options)).errors)
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=r"there is no layer 'output.*encoder'") as info:
        TFNetwork(config=Config(options)).construct_from_dict(net_dict)
    assert hint in str(info.value)
    fixed = nets(f"{prefix}encoder")[prefix]
    assert check_config(Config({**options, "network": fixed})).errors == []


def test_a_layer_inside_of_another_one_is_named():
    with tf.Graph().as_default():
        network = TFNetwork(config=Config({"extern_data": EXTERN_DATA}))
        inner = {"prob": {"class": "copy", "from": "data:source"}, "output": {"class": "copy", "from": "prob"}}
        net_dict = {
            "loop": {"class": "rec", "from": "data", "unit": inner},
            "output": {"class": "copy", "from": "prob"},
        }
        with pytest.raises(ConfigError, match=r"no layer 'prob'\.\n  There is one inside of 'loop': 'loop/prob'\."):
            network.construct_from_dict(net_dict)
