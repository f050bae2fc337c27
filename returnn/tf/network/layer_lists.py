"""All layers of a network, those of the networks inside of it too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.log import log
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network


def own_layers(net: Network) -> list[LayerBase]:
    """:return: the layers of this network, by name"""
    return [layer for _, layer in sorted(net.layers.items())]


def output_layers(net: Network) -> list[LayerBase]:
    """:return: all layers which are computed for their own sake"""
    return [layer for layer in own_layers(net) if layer.is_output_layer()]


def all_layers(net: Network, more: Sequence[LayerBase] = ()) -> list[LayerBase]:
    """
    :param net: the network
    :param more: layers which are not found by name
    :return: the layers of this network and of all networks inside of them, each once
    """
    found: list[LayerBase] = [layer for layer in more if layer.own_params]
    for layer in own_layers(net):
        if layer in found:
            continue
        found.append(layer)
        for inner in layer.get_sub_networks():
            found += [inner_layer for inner_layer in inner.get_all_layers_deep() if inner_layer not in found]
    for inner in subnets_without_layer(net).values():
        found += [inner_layer for inner_layer in inner.get_all_layers_deep() if inner_layer not in found]
    return found


def subnets_without_layer(net: Network) -> dict[str, Network]:
    """:return: by name: networks of which only layers inside were made, and not the layer that they belong to"""
    return {name: inner for name, inner in sorted(net.subnets.items()) if name not in net.layers}


def used_targets(net: Network) -> set[str]:
    """:return: keys of the data that some layer has as target"""
    targets = {target for layer in net.get_all_layers_deep() for target in layer.targets or ()}
    return {target for target in targets if not target.startswith("layer:")}


def latest_choice(sources: Sequence[LayerBase], *, seen: dict[LayerBase, Any] | None = None, stream: Any = None) -> Any:
    """
    :param sources: layers
    :param seen: is filled: the choice of each layer that was looked at, or None
    :param stream: is told about each layer that was looked at
    :return: the latest choice that the layers depend on, None without search
    """
    seen = {} if seen is None else seen
    todo, found = list(sources), []
    while todo:
        layer = todo.pop(0)
        if layer in seen:
            continue
        seen[layer] = layer.search_choices
        if stream is not None:
            print(f"  {layer.get_absolute_name()!r}: {layer.search_choices or 'no choice'}", file=stream)
        if layer.search_choices is not None:
            found.append(layer.search_choices)
        else:
            todo += layer.get_dep_layers()
    return max(found, key=_number_of_choices_before, default=None)


def _number_of_choices_before(choices: Any) -> int:
    return len(choices.owner.network.beams.chain(choices.beam))


def print_layers(net: Network, name: str, num_params: int) -> None:
    """
    Writes a table of the layers into the log.

    :param net: the network
    :param name: for people
    :param num_params: number of values in all parameters
    """
    print(f"{name} layer topology:", file=log.v2)
    print(f"  extern data: {net.extern_data.get_data_description()}", file=log.v2)
    for layer in net.get_all_layers_deep():
        names = layer.layer_class or type(layer).__name__
        kind = names if isinstance(names, str) else names[0]
        print(f"  layer {layer.get_absolute_name()!r} (class {kind!r}) {layer.output}", file=log.v2)
    print(f"  number of parameters: {num_params}", file=log.v2)
