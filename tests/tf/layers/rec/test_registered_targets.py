"""Loops whose target is what another layer registers as data."""

import pytest

from returnn.config import Config
from tests.tf.network.old_config import ConfigNet

_EXTERN_DATA = {"data": {"dim": 5}, "labels": {"dim": 7, "sparse": True}}
_STOP = {
    "stop": {"class": "linear", "from": "s", "n_out": 1, "activation": "sigmoid"},
    "is_over": {"class": "compare", "kind": "greater", "value": 0.5, "from": "stop"},
    "end": {"class": "squeeze", "axis": "F", "from": "is_over"},
}


def _net_dict(target, *, has_end, is_first):
    state = {"class": "rnn_cell", "unit": "lstmblock", "from": ["prev:output"], "n_out": 4}
    frame = {"class": "linear", "from": "s", "activation": None, "n_out": 5, "loss": "mse", "target": target}
    unit = {"s": state, "output": frame, **(_STOP if has_end else {})}
    loop = {"class": "rec", "from": [], "target": target, "max_seq_len": 4, "unit": unit}
    registering = {"class": "copy", "from": "data", "register_as_extern_data": "frames"}
    return {"frames": registering, "output": loop} if is_first else {"output": loop, "frames": registering}


def _net(*args, **kwargs):
    flags = {name: kwargs.pop(name) for name in ("with_loss", "eval_flag") if name in kwargs}
    net_dict = _net_dict(*args, **kwargs)
    return ConfigNet(Config({"extern_data": _EXTERN_DATA, "network": net_dict, "behavior_version": 21}), **flags)


@pytest.mark.parametrize("has_end", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_loop_is_as_long_as_a_registered_target_wherever_its_layer_stands(has_end, is_first):
    expected = _net("data", has_end=has_end, is_first=is_first, with_loss=True)
    net = _net("frames", has_end=has_end, is_first=is_first, with_loss=True)
    assert net.run("output").shape == expected.run("output").shape
    assert net.run(net.loss) == pytest.approx(expected.run(expected.loss), rel=1e-5)


def test_forwarding_goes_on_to_the_end_where_no_target_is_known_yet():
    """What the target is made of need not be there then."""
    net = _net("frames", has_end=True, is_first=False, eval_flag=False).net
    frames = net.extern_data.data["data"].get_time_dim_tag()
    assert net.layers["output"].output.get_time_dim_tag() != frames
