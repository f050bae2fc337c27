"""`NetDicts`: which net dict each epoch has."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from returnn.config import Config, network_json_from_config
from returnn.engine.net_options import check_special_keys
from returnn.engine.pretrain import Pretrain, resolve_epoch_values
from returnn.util.errors import ConfigError

NetDict = dict[str, Any]


class NetDicts:
    """The net dicts of a config: of the pretraining, or what `get_network(epoch=...)` gives, or `network`."""

    def __init__(self, config: Config, pretrain: Pretrain | None) -> None:
        """
        :param config: its options `get_network`, `network`
        :param pretrain: of the config
        """
        self.config = config
        self.pretrain = pretrain
        self.post_process: Callable[[NetDict], NetDict] = lambda net_dict: net_dict  # what a task changes of each

    def of_epoch(self, epoch: int, *, step: int | None = None, config: Config | None = None) -> NetDict:
        """
        :param epoch: from 1 on
        :param step: number of the training step, for `get_network` functions that want it
        :param config: default: that of all epochs
        :raises ConfigError: if there is none
        """
        config = config or self.config
        get_network = config.options.get_network
        if self.pretrain is not None:
            net_dict = self.pretrain.get_network_json_for_epoch(epoch)
        elif callable(get_network):
            net_dict = _call_get_network(get_network, epoch=epoch, step=step)
        elif config.options.network is not None or config.network_topology_json is not None:
            net_dict = network_json_from_config(config)
        elif config.options.get_model is not None:
            net_dict = _record_model(epoch=epoch, step=step)
        else:
            raise ConfigError("option 'network' is required: a dict with the options of each layer, by name.")
        check_special_keys(net_dict)
        return self.post_process(resolve_epoch_values(net_dict, epoch))

    def is_last_from(self, epoch: int) -> bool:
        """:return: whether all epochs from there on have the same network"""
        return self.pretrain is None or epoch > self.pretrain.get_train_num_epochs()


def _record_model(*, epoch: int, step: int | None) -> NetDict:
    """:return: net dict of what `get_model` and `train_step` of the global config compute"""
    entry_points = importlib.import_module("returnn.tf.frontend_layers.config_entry_points")
    net_dict: NetDict = entry_points.get_net_dict(epoch=epoch, step=step)
    return net_dict


def _call_get_network(get_network: Callable[..., NetDict], *, epoch: int, step: int | None) -> NetDict:
    wants_step = "step" in inspect.signature(get_network).parameters
    net_dict = get_network(epoch=epoch, **({"step": step} if wants_step else {}))
    if not isinstance(net_dict, Mapping):
        raise ConfigError(f"option 'get_network': returned {net_dict!r} for epoch {epoch}.\n  It has to be a net dict.")
    return dict(net_dict)
