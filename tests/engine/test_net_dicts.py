"""The net dict of each epoch, without a backend."""

import pytest

from returnn.config import Config
from returnn.engine.net_dicts import NetDicts
from returnn.engine.pretrain import WrapEpochValue
from returnn.util.errors import ConfigError


def net_dicts(**options):
    return NetDicts(Config(options), None)


def test_values_of_the_epoch_and_what_a_task_changes():
    dicts = net_dicts(network={"output": {"class": "linear", "n_out": WrapEpochValue(lambda epoch: 10 * epoch)}})
    dicts.post_process = lambda net_dict: {**net_dict, "more": {}}
    assert [dicts.of_epoch(epoch)["output"]["n_out"] for epoch in (1, 2)] == [10, 20]
    assert "more" in dicts.of_epoch(1)


def test_get_network_gets_the_step_only_if_it_wants_it():
    def with_step(*, epoch, step):
        return {"output": {"epoch": epoch, "step": step}}

    def without(*, epoch):
        return {"output": {"epoch": epoch}}

    assert net_dicts(get_network=with_step).of_epoch(3, step=7) == {"output": {"epoch": 3, "step": 7}}
    assert net_dicts(get_network=without).of_epoch(3, step=7) == {"output": {"epoch": 3}}


def test_without_a_network():
    with pytest.raises(ConfigError, match="option 'network' is required"):
        net_dicts().of_epoch(1)
    with pytest.raises(ConfigError, match="option 'get_network': returned None for epoch 2"):
        net_dicts(get_network=lambda epoch: None).of_epoch(2)


def test_keys_which_are_no_layers_can_be_notes():
    dicts = net_dicts(network={"#pretrain_idx": 3, "#about": "a note", "output": {"class": "softmax"}})
    assert dicts.of_epoch(1)["#pretrain_idx"] == 3
    with pytest.raises(ConfigError, match=r"no key '#copy_parm_mode'.\n  Did you mean '#copy_param_mode'"):
        net_dicts(network={"#copy_parm_mode": "subset"}).of_epoch(1)
