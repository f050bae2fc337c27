"""Layers by name, one by one: of a network (`GetLayer`), and of a network inside of a layer (`Subnetwork`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.network.layer_names import layer_not_found

LayerOfName = Callable[[str], LayerBase]


class GetLayer:
    """Function that gives the layer of a name, and makes it if necessary."""

    def __init__(
        self,
        network: Network,
        net_dict: dict[str, Any] | None = None,
        subnetwork: Subnetwork | None = None,
        add_layer_func: Callable[..., LayerBase] | None = None,
        parent_get_layer: LayerOfName | None = None,
    ) -> None:
        """
        :param network: where the layers are
        :param net_dict: their options; default: those of the network
        :param subnetwork: take the layers from there
        :param add_layer_func: makes a layer from name, class and options
        :param parent_get_layer: gives the layers of the network around, named "base:..."
        """
        self.network = network
        self.net_dict = network.layers_desc if net_dict is None else net_dict
        self.subnetwork = subnetwork
        self.add_layer_func = add_layer_func
        self.parent_get_layer = parent_get_layer

    def copy(self) -> GetLayer:
        """:return: the same once more"""
        return GetLayer(self.network, self.net_dict, self.subnetwork, self.add_layer_func, self.parent_get_layer)

    def __call__(self, layer_name: str) -> LayerBase:
        """:return: the layer of this name, see `returnn.tf.network.layer_names`"""
        if self.parent_get_layer is not None and layer_name.startswith("base:"):
            return self.parent_get_layer(layer_name[len("base:") :])
        if self.subnetwork is not None:
            return self.subnetwork.construct_layer(layer_name)
        return self.network.construct_layer(self.net_dict, layer_name, add_layer=self.add_layer_func)


class Subnetwork:
    """The network inside of a layer, which need not exist yet: its layers are made when they are needed."""

    def __init__(self, parent_net: Network, name: str, opts: dict[str, Any] | None = None) -> None:
        """
        :param parent_net: the network with the layer
        :param name: of the layer
        :param opts: its options, with "subnetwork" and "from"; default: as in the net dict
        """
        self.parent_net = parent_net
        self.name = self.name_in_parent = name
        self.net: Network = parent_net.construction.make_subnetwork(name, opts or parent_net.layers_desc[name])

    def __repr__(self) -> str:
        return f"<Subnetwork {self.net.get_absolute_name_prefix()!r}>"

    @property
    def layer(self) -> LayerBase | None:
        """The layer that it is the inside of, None if it was not made."""
        return self.parent_net.layers.get(self.name)

    def have_layer(self, name: str) -> bool:
        """:return: whether there is such a layer, made or not"""
        return name in self.net.layers or name in self.net.layers_desc

    def get_layer_desc(self, name: str) -> dict[str, Any]:
        """
        :return: options of a layer
        :raises LayerNotFound: if there is no such layer
        """
        if name not in self.net.layers_desc:
            raise layer_not_found(self.net, name, {key: d for key, d in self.net.layers_desc.items() if key != name})
        return self.net.layers_desc[name]

    def get_layer_class(self, name: str) -> type[LayerBase]:
        """:return: class of a layer"""
        return get_layer_class(self.get_layer_desc(name)["class"])  # type: ignore[no-any-return]

    def get_data(self, name: str, get_layer: LayerOfName) -> Tensor:
        """
        :param name: of the layer, also "data"
        :param get_layer: for the names of the network around ("base:...")
        :return: its output
        """
        return self.get_sub_layer_func(get_layer)(name).output

    def get_sub_layer_func(self, base_get_layer: LayerOfName | None) -> GetLayer:
        """
        :param base_get_layer: for the names of the network around ("base:...")
        :return: gives the layers in here
        """
        return GetLayer(self.net, parent_get_layer=base_get_layer)

    def construct_layer(self, name: str, parent_get_layer: LayerOfName | None = None) -> LayerBase:
        """
        :param name: of a layer in here
        :param parent_get_layer: for the names of the network around
        """
        return self.get_sub_layer_func(parent_get_layer)(name)

    def construct_all(self, parent_get_layer: LayerOfName | None = None) -> None:
        """
        :param parent_get_layer: for the names of the network around
        """
        for name in self.net.layers_desc:
            self.construct_layer(name, parent_get_layer)

    def complete_construction_parent_subnet_layer(self, parent_get_layer: LayerOfName | None = None) -> LayerBase:
        """
        :param parent_get_layer: gives layers of the network around
        :return: the layer that this is the inside of, made if necessary
        """
        if parent_get_layer is not None:
            return parent_get_layer(self.name)
        return self.parent_net.construct_layer(self.parent_net.layers_desc, self.name)
