"""
Extra networks: the same net dict once more, beside a network, with search in one and none in the other.

A layer name such as `"extra.search:output"` means the layer "output" of the extra network "extra.search", in which
choices search. So a training can use the hypotheses of a search, as in minimum Bayes risk training. Parameters have
the same names, and are the same. Layers that no choice has to do with are not made again.

Such a name can also be a key of the net dict: its options hold for that layer in that extra network, in place of those
that the plain name has, if any. What depends on the layer is made again there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import GetLayer, NetDict, Network
from returnn.tf.layers.options.registry import is_choice
from returnn.util.errors import ConfigError
from returnn.util.python.nested import iter_nested

MakeNetwork = Callable[..., Network]
_WORDS = {"search": True, "no_search": False}  # behind "extra.", and what it says of choices


class ExtraNets:
    """Other versions of a network; and the network that this one is another version of."""

    def __init__(
        self,
        net: Network,
        base: Network | None,
        base_nets: ExtraNets | None,
        make_network: MakeNetwork,
        *,
        takes_layers_of_base: bool,
    ) -> None:
        """
        :param net: the network
        :param base: the network that this one stands beside
        :param base_nets: its other versions, one of which is this
        :param make_network: makes a network beside this one
        :param takes_layers_of_base: whether layers of the base are taken where they are the same
        """
        self.net = net
        self.base = base
        self.base_nets = base_nets
        self.nets: dict[str, Any] = {}
        self.takes_layers_of_base = takes_layers_of_base
        self._make_network = make_network

    def make(
        self, prefix: str, net_name: str | None = None, *, only_template: bool = False, boundary: bool = False
    ) -> Network:
        """
        :param prefix: such as "extra.search"
        :param net_name: key in `nets`; default: the prefix
        :param only_template: its layers only infer dims
        :param boundary: it is no version of this network, and takes no layers from it
        :return: the network, which is made if it does not exist
        """
        key = net_name or prefix
        if key not in self.nets:
            net = self._make_network(
                extra_name_prefix=prefix,
                search_flag=_search_flag(prefix, self.net.search_flag),
                only_template=self.net.only_template or only_template,
                takes_layers_of_base=not boundary,
                name=key,
            )
            net.layers_desc.update(_net_dict_of(prefix, self.net.layers_desc))
            self.nets[key] = net
        return self.nets[key]

    def construct(
        self,
        net: Network,
        net_dict: NetDict,
        layer_list: Collection[str],
        *,
        check_existing: bool,
        get_layer: GetLayer | None,
        add_layer: Callable[..., LayerBase] | None,
    ) -> None:
        """
        :param net: another version of this network
        :param net_dict: options of each layer, by name
        :param layer_list: names of the layers to make
        :param check_existing: if this network has such a layer already, take it
        :param get_layer: function that gives the layers of this network
        :param add_layer: function that adds layers to it
        """
        net_dict = _net_dict_of(net.extra_name_prefix_text.removesuffix(":"), net_dict)
        for name in layer_list:
            if check_existing and name in self.net.layers:
                net.layers[name] = self.net.layers[name]
            else:
                net.construct_layer(net_dict, name, get_layer=get_layer, add_layer=add_layer)

    def layer_by_name(self, net_dict: NetDict, name: str) -> LayerBase:
        """
        :param net_dict: options of each layer, by name
        :param name: such as "extra.search:output"
        """
        prefix, _, rest = name.partition(":")
        return (self.base_nets or self).make(prefix).construct_layer(_net_dict_of(prefix, net_dict), rest)

    def layer_of_base(self, net_dict: NetDict, name: str) -> LayerBase | None:
        """:return: the layer of the network beside which this one stands, if it is the same here and there"""
        if self.base is None or not self.takes_layers_of_base or name.startswith(("extra.", "base:", "root:")):
            return None
        if depends_on_choice(name.partition("/")[0], net_dict, own=self._own_names(net_dict)):
            return None
        return self.base.construct_layer(net_dict, name)

    def _own_names(self, net_dict: NetDict) -> frozenset[str]:
        """:return: names of layers that this network has options of its own for"""
        prefix = self.net.extra_name_prefix_text
        return frozenset(name.removeprefix(prefix) for name in net_dict if prefix and name.startswith(prefix))


def is_name_in_extra_net(name: str) -> bool:
    """:return: whether it is such as "extra.search:output" """
    return name.startswith("extra.") and ":" in name


def known_in_extra_net(name: str, net_dict: Mapping[str, Any]) -> bool:
    """:return: whether the net dict has the layer of this name for some extra network alone"""
    return any(is_name_in_extra_net(key) and key.partition(":")[2] == name for key in net_dict)


def check_extra_entry(name: str, desc: Mapping[str, Any]) -> None:
    """
    :param name: such as "extra.search:output", a key of a net dict
    :param desc: options of the layer
    :raises ConfigError: if it has a loss: those of the network count
    """
    if desc.get("loss") is not None:
        example = {"class": "copy", "from": name, "loss": desc["loss"]}
        raise ConfigError(
            f"layer {name!r}: option 'loss': a layer of an extra network has none.\n  A layer of the network itself"
            f" can have the loss on its output: {example}."
        )


def _net_dict_of(prefix: str, net_dict: NetDict) -> NetDict:
    """:return: with the options that layers have in the extra network of this prefix"""
    start = f"{prefix}:"
    own = {name.removeprefix(start): desc for name, desc in net_dict.items() if name.startswith(start)}
    return {**net_dict, **own}


def _search_flag(prefix: str, default: bool) -> bool:
    """:return: whether choices search in an extra network with this prefix"""
    first, *words = prefix.split(".")
    unknown = [word for word in words if word not in _WORDS]
    if first != "extra" or unknown:
        raise ConfigError(f"layer name '{prefix}:...': an extra network is 'extra.search' or 'extra.no_search'.")
    return _WORDS[words[-1]] if words else default


def depends_on_choice(
    name: str, net_dict: Mapping[str, Any], _seen: set[str] | None = None, *, own: Collection[str] = ()
) -> bool:
    """
    :param name: of a layer
    :param net_dict: options of each layer, by name
    :param own: names of layers that count as choices
    :return: whether a layer has a choice inside, or anything that it needs; in doubt, it does
    """
    seen = set() if _seen is None else _seen
    if name in own:
        return True
    if name in seen or not isinstance(net_dict.get(name), Mapping):
        return False
    seen.add(name)
    values = [value for value in iter_nested(net_dict[name]) if isinstance(value, (str, type))]
    if any(map(is_choice, values)):
        return True
    texts = [value for value in values if isinstance(value, str)]
    return any(depends_on_choice(_first_name(text), net_dict, seen, own=own) for text in texts)


def _first_name(text: str) -> str:
    """:return: the layer of this network that a text may name"""
    for prefix in ("base:", "layer:", "prev:"):
        text = text.replace(prefix, "")
    return text.partition("/")[0]
