"""
Extra networks: the same net dict once more, beside a network, with search in one and none in the other.

A layer name such as `"extra.search:output"` means the layer "output" of the extra network "extra.search", in which
choices search. So a training can use the hypotheses of a search, as in minimum Bayes risk training. Parameters have
the same names, and are the same. Layers that no choice has to do with are not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from returnn.util.errors import ConfigError
from returnn.util.nested import iter_nested

if TYPE_CHECKING:
    from returnn.tf.layers.core.layer_base import LayerBase
    from returnn.tf.network.network import TFNetwork

_WORDS = {"search": True, "no_search": False}  # behind "extra.", and what it says of choices


class NetworkExtra:
    """The part of `TFNetwork` about other versions of it."""

    def make_extra_net(
        self: TFNetwork,
        prefix_name: str,
        net_name: str | None = None,
        only_template: bool = False,
        boundary: bool = False,
    ) -> TFNetwork:
        """
        :param prefix_name: such as "extra.search"
        :param net_name: key in `extra_nets`; default: the prefix
        :param only_template: its layers only infer dims
        :param boundary: it is no version of this network, and takes no layers from it
        :return: the network, which is made if it does not exist
        """
        key = net_name or prefix_name
        if key not in self.extra_nets:
            net = type(self)(
                parent_net=self.parent_net, extra_parent_net=self, extra_name_prefix=prefix_name,
                extern_data=self.extern_data, search_flag=_search_flag(prefix_name, self.search_flag), name=key,
            )  # fmt: skip
            net.parent_layer = self.parent_layer
            net.only_template = self.only_template or only_template
            net.takes_layers_of_base = not boundary
            net.layers_desc.update(self.layers_desc)
            self.extra_nets[key] = net
        return self.extra_nets[key]

    def construct_extra_net(
        self: TFNetwork,
        net_dict: dict[str, Any],
        layer_list: Collection[str],
        search_flag: bool | None = None,
        dep_layers_in_extra: bool = False,
        check_existing: bool = False,
        net_name: str | None = None,
        prefix_name: str | None = None,
        base_get_layer: Callable[[str], LayerBase] | None = None,
        base_add_layer: Callable[..., LayerBase] | None = None,
    ) -> TFNetwork:
        """
        :param net_dict: options of each layer, by name
        :param layer_list: names of the layers to make
        :param search_flag: whether choices search in there
        :param dep_layers_in_extra: make everything again that these layers need
        :param check_existing: if this network has such a layer already, take it
        :param net_name: key in `extra_nets`; default: the prefix
        :param prefix_name: default: "extra.search" or "extra.no_search"
        :param base_get_layer: function that gives the layers of this network
        :param base_add_layer: function that adds layers to it
        :return: the extra network
        """
        search_flag = self.search_flag if search_flag is None else search_flag
        prefix = prefix_name or ("extra.search" if search_flag else "extra.no_search")
        net = self.make_extra_net(prefix, net_name=net_name, boundary=dep_layers_in_extra)
        net.search_flag = search_flag
        for name in layer_list:
            if check_existing and name in self.layers:
                net.layers[name] = self.layers[name]
            else:
                net.construct_layer(net_dict, name, get_layer=base_get_layer, add_layer=base_add_layer)
        return net

    def all_extra_nets(self: TFNetwork) -> list[TFNetwork]:
        """:return: extra networks of this one, of those inside of it, and of these"""
        nets = list(self.extra_nets.values())
        for subnet in [*self.subnets.values(), *nets]:
            nets += subnet.all_extra_nets()
        return nets

    def _layer_of_extra_net(self: TFNetwork, net_dict: dict[str, Any], name: str) -> LayerBase:
        prefix, _, rest = name.partition(":")
        base = self if self.extra_parent_net is None else self.extra_parent_net
        return base.make_extra_net(prefix).construct_layer(net_dict, rest)

    def _layer_of_base(self: TFNetwork, net_dict: dict[str, Any], name: str) -> LayerBase | None:
        """:return: the layer of the network beside which this one stands, if it is the same here and there"""
        base = self.extra_parent_net
        if base is None or not self.takes_layers_of_base or name.startswith(("extra.", "base:", "root:")):
            return None
        if depends_on_choice(name.partition("/")[0], net_dict):
            return None
        return base.construct_layer(net_dict, name)


def _search_flag(prefix: str, default: bool) -> bool:
    """:return: whether choices search in an extra network with this prefix"""
    first, *words = prefix.split(".")
    unknown = [word for word in words if word not in _WORDS]
    if first != "extra" or unknown:
        raise ConfigError(f"layer name '{prefix}:...': an extra network is 'extra.search' or 'extra.no_search'.")
    return _WORDS[words[-1]] if words else default


def depends_on_choice(name: str, net_dict: Mapping[str, Any], _seen: set[str] | None = None) -> bool:
    """:return: whether a layer has a choice inside, or anything that it needs; in doubt, it does"""
    seen = set() if _seen is None else _seen
    if name in seen or not isinstance(net_dict.get(name), Mapping):
        return False
    seen.add(name)
    texts = [text for text in iter_nested(net_dict[name]) if isinstance(text, str)]
    if "choice" in texts:
        return True
    return any(depends_on_choice(_first_name(text), net_dict, seen) for text in texts)


def _first_name(text: str) -> str:
    """:return: the layer of this network that a text may name"""
    for prefix in ("base:", "layer:", "prev:"):
        text = text.replace(prefix, "")
    return text.partition("/")[0]
