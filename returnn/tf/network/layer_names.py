"""
What a name in a net dict means.

| name | means |
| --- | --- |
| `"encoder"` | the layer of this name, in the same network |
| `"data"`, `"data:KEY"` | data of the network; inside a subnetwork, `"data"` is what its sources give |
| `"sub/layer"` | a layer inside of another one |
| `"base:layer"`, `"../layer"` | a layer of the network around this one |
| `"root:layer"`, `"base:base:layer"` | of the outermost network; of the one around the one around |
| `"extra.search:layer"` | of the same network with search, see `returnn.tf.network.extra_nets` |
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.step_state import LayerNeedsItself
from returnn.util.errors import ConfigError, nearest_hint


class NetworkLayerException(ConfigError):
    """Something is wrong with a layer."""

    def __init__(self, message: str, layer_name: str, network: Network, net_dict: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.layer_name = layer_name
        self.network = network
        self.net_dict = net_dict


class LayerNotFound(NetworkLayerException):
    """There is no layer of this name."""

    def __init__(self, message: str, *, known: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.known = tuple(known)  # names which would have been possible


class DataNotFound(ConfigError):
    """There is no data of this key."""


class CannotHandleUndefinedSourcesException(NetworkLayerException):
    """The template of a layer needs sources which are not known yet."""


class NetworkConstructionDependencyLoopException(LayerNeedsItself, NetworkLayerException):
    """A layer needs itself."""

    def __init__(self, network: Network, layer_name: str, constructing_layers: Any, net_dict: dict[str, Any]) -> None:
        chain = list(constructing_layers)
        chain = [*chain[chain.index(layer_name) :], layer_name] if layer_name in chain else [*chain, layer_name]
        message = (
            f"layer {network.get_absolute_name_prefix() + layer_name!r} needs itself:"
            f" {' -> '.join(map(repr, chain))}.\n"
            "  Inside a loop, 'prev:' means the frame before."
        )
        super().__init__(message, layer_name=layer_name, network=network, net_dict=net_dict)


def layer_not_found(network: Network, name: str, net_dict: dict[str, Any]) -> LayerNotFound:
    """:return: error to raise"""
    known = [*net_dict, *("data" if key == "data" else f"data:{key}" for key in network.extern_data.data)]
    known = [key for key in dict.fromkeys(known) if not key.startswith("#")]
    full = network.get_absolute_name_prefix() + name
    by = where_it_is_needed(network)
    options = net_dict.get(name)
    if isinstance(options, dict) and options.get("only_on_search") and not network.search_flag:
        message = f"{by}the layer {full!r} is there in a search alone ('only_on_search'), as with ++task search."
    elif name in net_dict:
        message = f"{by}the layer {full!r} was not made, as nothing needs it.\n  Give it 'is_output_layer': True."
    else:
        message = f"{by}there is no layer {full!r}.\n  {_elsewhere(network, name) or nearest_hint(name, known)}"
    return LayerNotFound(message, known=known, layer_name=name, network=network, net_dict=net_dict)


def _elsewhere(network: Network, name: str) -> str | None:
    """:return: hint, if a network around has a layer of that name, or one inside of a layer"""
    prefix, net = "base:", network.parent_net
    while net is not None:
        if name in net.layers_desc or name in net.layers:
            return f"There is one outside of it: {prefix + name!r}."
        prefix, net = f"base:{prefix}", net.parent_net
    for layer, options in network.layers_desc.items():
        inner = [options.get(key) for key in ("unit", "subnetwork")] if isinstance(options, dict) else []
        if any(isinstance(net_dict, dict) and name in net_dict for net_dict in inner):
            return f"There is one inside of {layer!r}: {f'{layer}/{name}'!r}."
    return None


@contextlib.contextmanager
def naming_as_written(network: Network, prefix: str, name: str) -> Iterator[None]:
    """
    :param network: where the name stands
    :param prefix: such as "base:"
    :param name: what comes after it. If there is no such layer, the error has the name as it is written
    """
    try:
        yield
    except LayerNotFound as exc:
        if exc.layer_name != name or not exc.known:
            raise
        known = [prefix + key for key in exc.known]
        message = f"{where_it_is_needed(network)}there is no layer {prefix + name!r}.\n  "
        message += nearest_hint(prefix + name, known)
        raise LayerNotFound(message, layer_name=prefix + name, network=network, net_dict=exc.net_dict) from exc


def where_it_is_needed(network: Network) -> str:
    """:return: how a message about a name begins: the layer that is being made, here or in a network around"""
    net: Network | None = network
    while net is not None:
        if net.construction.current:
            return f"layer {net.get_absolute_name_prefix() + net.construction.current!r}: "
        net = net.parent_net
    return ""
