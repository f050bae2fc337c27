"""Says which layers a trained model has, and the network that it is loaded into does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from returnn.engine.net_dicts import NetDict
from returnn.log import log
from returnn.tf.layers.core.name_scope import scope_name
from returnn.util.texts.counted import counted, some_of

_NETWORKS_INSIDE = ("unit", "subnetwork")  # options
_SCOPE_OF_LOOP = "rec"


def warn_of_lacking_layers(net_dict: NetDict, params: Iterable[str], *, filename: str) -> None:
    """
    For tasks other than training. What a task does not need, such as the layers of an auxiliary loss, may well be in
    the net dict: it is not built. So a layer that is not there is one of another network.

    :param net_dict: as the config has it
    :param params: names of parameters that are in the checkpoint alone
    :param filename: of the checkpoint
    """
    layers = list(dict.fromkeys(filter(None, (_lacking_layer(net_dict, name.split("/")[:-1]) for name in params))))
    if not layers:
        return
    log.print_warning(
        f"{filename}: {counted(len(layers), 'layer')} with trained parameters "
        f"{'is' if len(layers) == 1 else 'are'} not in the network: "
        f"{some_of(layers)}. It computes something else than what was trained, unless "
        "they were of the training alone, such as an auxiliary loss. These can stay in 'network'."
    )


def _lacking_layer(net_dict: Mapping[str, Any], scopes: list[str]) -> str | None:
    """
    :param net_dict: of the network, or of one inside of a layer
    :param scopes: of a parameter, e.g. ["output", "rec", "s", "rec"]
    :return: absolute name, such as "output/s"; None if the net dict has all layers of the parameter
    """
    layers: dict[str, Mapping[str, Any]] = {}
    for name, desc in net_dict.items():
        if isinstance(desc, Mapping):
            scope = desc.get("name_scope")
            if scope is not None and (not scope or "/" in scope):  # then parameters of any name may be its
                return None
            layers[scope_name(name) if scope is None else scope] = desc
    if not scopes:
        return None
    first, *rest = scopes
    if first not in layers:
        return first
    inside = next((layers[first][key] for key in _NETWORKS_INSIDE if isinstance(layers[first].get(key), Mapping)), None)
    if inside is None:
        return None
    if rest and rest[0] == _SCOPE_OF_LOOP:
        rest = rest[1:]
    lacking = _lacking_layer(inside, rest)
    return f"{first}/{lacking}" if lacking else None
