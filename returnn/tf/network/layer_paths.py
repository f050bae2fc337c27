"""`LayerPaths`: layers by names that are not in the net dict, see `returnn.tf.network.layer_names`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import GetLayer, NetDict, Network
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.tf.layers.structure.subnetwork import subnetwork_sources
from returnn.tf.layers.user_code.outside_view import making_layers
from returnn.tf.network.data import NetworkData
from returnn.tf.network.extra_nets import ExtraNets, is_name_in_extra_net
from returnn.tf.network.layer_names import naming_as_written, where_it_is_needed
from returnn.tf.network.place import NetworkPlace
from returnn.tf.network.scopes import training_scope
from returnn.tf.network.step import StepOfLoop
from returnn.util.errors import ConfigError


class LayerPaths:
    """Finds layers by path. Those which do not exist are made."""

    def __init__(
        self, net: Network, place: NetworkPlace, step: StepOfLoop, data: NetworkData, extra: ExtraNets
    ) -> None:
        """
        :param net: where paths begin
        :param place: of the network
        :param step: the loop that it is part of
        :param data: of the network
        :param extra: other versions of the network
        """
        self.net = net
        self.place = place
        self.step = step
        self.data = data
        self.extra = extra

    @making_layers()
    def find(
        self,
        net_dict: NetDict,
        name: str,
        get_layer: GetLayer | None = None,
        add_layer: Callable[..., LayerBase] | None = None,
    ) -> LayerBase | None:
        """:return: layer by a name that is not in the net dict; None if it can be none"""
        net = self.net
        if name == "data" or name.startswith("data:"):
            return self._data_layer(name)
        if self.place.view_around is not None:
            return self.place.view_around(self._layer_around(name))
        if name == ":i":
            return self._step_info()
        if is_name_in_extra_net(name):
            return self.extra.layer_by_name(net_dict, name)
        if name.startswith("prev:"):
            rest = name[len("prev:") :]
            with naming_as_written(net, "prev:", rest):
                return self.step.prev_layer(rest)
        for prefix, outer in (("base:", net.parent_net), ("../", net.parent_net), ("root:", net.get_root_network())):
            if name.startswith(prefix):
                rest = name[len(prefix) :]
                if outer is None:
                    where = f"{where_it_is_needed(net)}layer name {name!r}"
                    raise ConfigError(f"{where}: this is the outermost network, there is none around it.")
                with naming_as_written(net, prefix, rest):
                    return outer.construct_layer(outer.layers_desc, rest)
        if "/" not in name:
            return None
        first, _, rest = name.partition("/")
        if first in net_dict and first not in net.layers:
            subnet = self._subnetwork(first, net_dict[first])
            if subnet is not None:
                if self.step.innermost_frame() is None:
                    net.get_root_network().construction.partly_used.append((net, first))
                return subnet.construct_layer(subnet.layers_desc, rest)
        layer = net.construct_layer(net_dict, first, get_layer=get_layer, add_layer=add_layer)
        return self._sub_layer(layer, name, rest)

    def _step_info(self) -> LayerBase:
        """:return: the number of the frame, as the networks around see it, which may leave out frames"""
        outer = self.net.parent_net
        if outer is None or ":i" in self.net.layers or self.step.info(must_exist=False) is None:
            return self.step.info()
        return outer.construct_layer(outer.layers_desc, ":i")

    def _layer_around(self, name: str) -> LayerBase:
        """:return: layer of the network around by its name there, to which "base:" may be added"""
        outer = self.net.parent_net
        assert outer is not None
        rest = name.removeprefix("base:")
        if not rest.startswith(("base:", "data", "prev:")) and rest.partition("/")[0] not in outer.layers_desc:
            rest = name
        with naming_as_written(self.net, name.removesuffix(rest), rest):
            return outer.construct_layer(outer.layers_desc, rest)

    def _subnetwork(self, name: str, desc: dict[str, Any]) -> Network | None:
        """:return: the network inside of a layer, if its layers can be made one by one; the layer need not exist"""
        if "class" not in desc:
            return None
        return get_layer_class(desc["class"]).cls_get_sub_network(name=name, network=self.net, layer_desc=desc)

    def _sub_layer(self, layer: LayerBase, name: str, rest: str) -> LayerBase | None:
        sub_layer = layer.get_sub_layer(rest)
        frame, path = self.step.innermost_frame(), self.step.path_of(name)
        if frame is not None and path is not None and sub_layer is not None and path not in frame.layers:
            with frame.constructing(path):
                frame.note_use(layer)
            sub_layer.collocate_with = [path[: -len(rest) - 1]]  # only the layer itself can make it
            frame.note_layer(path, sub_layer)
        return sub_layer

    def _data_layer(self, name: str) -> LayerBase:
        with self.step.constructing(name):
            self._make_data_of_sources()
        key = name.partition(":")[2] or self.net.extern_data.default_input
        self.data.check_known(key)
        return self.net.add_layer(name, get_layer_class("source"), data_key=key, sources=[])

    def _make_data_of_sources(self) -> None:
        """Makes the data of a subnetwork from the sources of its layer, when it is first needed."""
        options, parent = self.place.layer_options, self.net.parent_net
        if options is None or parent is None or self.net.extern_data.data:
            return
        names = options.get("from", [])
        names = [names] if isinstance(names, str) else names
        sources = options.get("sources") or [parent.construct_layer(parent.layers_desc, name) for name in names]
        frame = self.step.innermost_frame()
        if frame is not None:
            for source in sources:
                frame.note_use(source)
        sources = SearchChoices.translate_to_common_search_beam(list(sources))
        with training_scope(self.net):  # for dropout
            self.net.extern_data.data.update(subnetwork_sources(dict(options), sources))
