"""Net dicts in which further layers are computed, as they are to be looked at from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.util.errors import check_known

NetDict = dict[str, Any]
_INNER_NETS = ("unit", "subnetwork")


def with_kept_layer(net_dict: NetDict, path: Sequence[str], *, where: str) -> NetDict:
    """
    :param net_dict: options of each layer, by name
    :param path: names from the outermost layer to the one that is wanted, such as ["output", "weights"]
    :param where: for the error message
    :return: the same, but the layer is computed, and all its frames are kept. Of a layer without a net dict, it is one
        that the layer itself makes, such as "scores" of `forced_align`; the network knows which these are
    :raises ConfigError: if there is no such layer
    """
    name, *rest = path
    check_known("layer", name, net_dict, where=where)
    options = net_dict[name]
    inner = next((key for key in _INNER_NETS if isinstance(options.get(key), dict)), None)
    if not rest or inner is None:
        return {**net_dict, name: {**options, "is_output_layer": True}}
    return {**net_dict, name: {**options, inner: with_kept_layer(options[inner], rest, where=where)}}
