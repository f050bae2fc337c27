"""`TFNetwork`: layers, made from a net dict. What it does is done by its parts, which know each other by turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy
import tensorflow as tf

from returnn.config import get_global_config
from returnn.tensor import Dim
from returnn.tensor.control_flow_ctx import ControlFlowContext
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.layer_dims import DimsOfLayers
from returnn.tf.layers.core.network_protocol import GetLayer, InnerNetwork, NetDict
from returnn.tf.layers.search.beam import Beams
from returnn.tf.network import layer_lists
from returnn.tf.network.construction import Construction
from returnn.tf.network.data import NetworkData
from returnn.tf.network.documented import DocumentedNetwork
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.extra_nets import ExtraNets
from returnn.tf.network.float_dtype import float_dtype_of_config
from returnn.tf.network.layer_names import layer_not_found
from returnn.tf.network.losses import NetworkLosses
from returnn.tf.network.params import NetworkParams
from returnn.tf.network.place import NetworkPlace
from returnn.tf.network.run import NetworkRun
from returnn.tf.network.scopes import layer_creation_scope, training_scope
from returnn.tf.network.step import StepOfLoop
from returnn.tf.network.subnet_access import Subnetwork
from returnn.util.python.user_code import prepare_for_user_code


class TFNetwork(DocumentedNetwork):
    """Layers, made from a net dict. A network inside of a layer is one, too."""

    construction_class: ClassVar[type[Construction]] = Construction
    params_class: ClassVar[type[NetworkParams]] = NetworkParams

    def __init__(
        self,
        config: Any = None,
        extern_data: ExternData | None = None,
        rnd_seed: int | None = None,
        train_flag: bool | tf.Tensor | None = None,
        eval_flag: bool | None = None,
        search_flag: bool | None = None,
        parent_layer: LayerBase | None = None,
        parent_net: TFNetwork | None = None,
        extra_parent_net: TFNetwork | None = None,
        extra_name_prefix: str | None = None,
        inside_rec_time_dim: Dim | None = None,
        over_rec_time_dim: Dim | None = None,
        over_rec_time_dim_subs: set[Dim] | None = None,
        control_flow_ctx: ControlFlowContext | None = None,
        absolute_name_prefix: str | None = None,
        name: str = "",
        *,
        inner: InnerNetwork | None = None,
        only_template: bool | None = None,
        takes_layers_of_base: bool = True,
    ) -> None:
        """
        :param config: default: that of the network around, or the global one
        :param extern_data: the data that goes in; default: from the config, with placeholders
        :param rnd_seed: for parameters and dropout
        :param train_flag: whether this is training; also a raw bool scalar
        :param eval_flag: whether losses are computed outside of training
        :param search_flag: whether choices search
        :param parent_layer: the layer that this network is inside of
        :param parent_net: the network of that layer
        :param extra_parent_net: the network that this one stands beside, as another version of parts of it
        :param extra_name_prefix: what such a network puts in front of its names
        :param inside_rec_time_dim: the dim of the loop of which this network is one frame
        :param over_rec_time_dim: the dim of the loop which this network stands for, all frames at once
        :param over_rec_time_dim_subs: dims of loops inside of this network
        :param control_flow_ctx: the loop or branch
        :param absolute_name_prefix: what names begin with, instead of those of the layers around
        :param name: for people
        :param inner: what else is known of a network inside of a layer
        :param only_template: whether layers only infer dims; default: as around
        :param takes_layers_of_base: whether layers of the network that this one stands beside are taken if possible
        """
        prepare_for_user_code()
        outer = parent_net or extra_parent_net
        self.extra = ExtraNets(
            self,
            extra_parent_net,
            extra_parent_net.extra if extra_parent_net else None,
            self._make_beside,
            takes_layers_of_base=takes_layers_of_base,
        )
        self.name = name
        self.parent_net = parent_net
        self.only_template: bool = _given(only_template, outer.only_template if outer else False)
        self._config = config
        self.over_rec_time_dim_subs = over_rec_time_dim_subs or set()
        self.train_flag: bool | tf.Tensor = _given(train_flag, outer.train_flag if outer else False)
        self.eval_flag: bool = _given(
            eval_flag, outer.eval_flag if outer else not isinstance(train_flag, bool) or train_flag
        )
        self.search_flag: bool = _given(search_flag, outer.search_flag if outer else False)
        self.rnd_seed = 42 if rnd_seed is None else rnd_seed
        self.random = numpy.random.RandomState(self.rnd_seed)
        self.beams: Beams = outer.beams if outer else Beams()
        # The same layer in an extra network may have other lengths.
        self.dims_of_layers: DimsOfLayers = (
            outer.dims_of_layers if outer and extra_parent_net is None else DimsOfLayers()
        )
        self.float_dtype: str = outer.float_dtype if outer else float_dtype_of_config(self.get_config())
        self.extern_data = extern_data if extern_data is not None else self._make_extern_data()
        self.layers: dict[str, LayerBase] = {}
        self.layers_desc: NetDict = {} if inner is None else _only_layers(inner.net_dict)
        self.subnets: dict[str, Any] = {}
        self.place = NetworkPlace(
            parent=parent_net.place if parent_net else None,
            beside=extra_parent_net.place if extra_parent_net else None,
            layer=parent_layer,
            extra_prefix=extra_name_prefix,
            name_prefix=absolute_name_prefix,
            scope_prefix=inner.scope_prefix if inner else None,
            inside_time=inside_rec_time_dim,
            over_time=over_rec_time_dim,
            more_times=self.over_rec_time_dim_subs,
            control_flow=control_flow_ctx,
            layer_options=inner.layer_options if inner else None,
            view_around=inner.view_around if inner else None,
        )
        self.step = StepOfLoop(self, self.place, outer.step if outer else None, inner.frame if inner else None)
        self.data = NetworkData(self, self.step, outer.data.root if outer else None)
        self.params = self.params_class(
            self, self.place, parent_net.params if parent_net else None, outer.params if outer else None
        )
        self.params.is_dict_trainable = inner is None or inner.net_dict.get("#trainable", True) is not False
        self.construction = self.construction_class(
            self, self.place, self.step, self.data, self.params, self.extra, self._make_inside
        )
        self.losses = NetworkLosses(self, self.data)
        self.run: NetworkRun = outer.run if outer else NetworkRun()

    def _make_extern_data(self) -> ExternData:
        extern_data = ExternData()
        extern_data.init_from_config(self.get_config(), auto_create_placeholders=True)
        return extern_data

    def _make_inside(self, inner: InnerNetwork, extern_data: ExternData) -> TFNetwork:
        return type(self)(
            parent_net=self,
            parent_layer=inner.layer,
            extern_data=extern_data,
            absolute_name_prefix=inner.name_prefix,
            inside_rec_time_dim=inner.inside_time,
            over_rec_time_dim=inner.over_time,
            name=inner.name,
            only_template=inner.only_template,
            inner=inner,
        )

    def _make_beside(self, **options: Any) -> TFNetwork:
        return type(self)(
            parent_net=self.parent_net,
            parent_layer=self.parent_layer,
            extra_parent_net=self,
            extern_data=self.extern_data,
            **options,
        )

    def get_config(self, consider_global_config: bool = True, fallback_dummy_config: bool = True) -> Any:
        """
        :param consider_global_config: take the global config if there is none
        :param fallback_dummy_config: take an empty one if there is no global one either
        """
        if self._config is not None:
            return self._config
        if self._around is not None:
            return self._around.get_config(consider_global_config, fallback_dummy_config)
        if consider_global_config:
            return get_global_config(raise_exception=not fallback_dummy_config, auto_create=fallback_dummy_config)
        return None

    # Networks around.

    @property
    def _around(self) -> TFNetwork | None:
        return self.parent_net or self.extra_parent_net

    def get_root_network(self) -> TFNetwork:
        """:return: the outermost network"""
        return self if self._around is None else self._around.get_root_network()

    def get_root_ctx_network(self) -> tuple[TFNetwork, str]:
        """:return: the outermost network that is not another version of one; and what names begin with in there"""
        if self.extra_parent_net is not None:
            return self.extra_parent_net.get_root_ctx_network()
        if self.parent_net is None:
            return self, ""
        root, prefix = self.parent_net.get_root_ctx_network()
        own = f"{self.parent_layer.name}/" if self.parent_layer is not None else ""
        return root, prefix + own

    def get_network_hierarchy(self) -> list[TFNetwork]:
        """:return: the networks from the outermost to this one"""
        return [*(self._around.get_network_hierarchy() if self._around is not None else []), self]

    # Layers by name.

    def construct_from_dict(self, net_dict: NetDict, get_layer: GetLayer | None = None) -> None:
        """
        Makes all layers that are needed: the output, those with a loss, those with `is_output_layer`.

        :param net_dict: options of each layer, by name. With the key "#trainable", False, training changes none of them
        :param get_layer: function that gives the layer of a name, instead of the usual
        :raises ConfigError: if something in it is wrong
        """
        self.construction.construct_all(net_dict, get_layer)

    def make_subnet(self, name: str, opts: dict[str, Any]) -> Subnetwork:
        """:return: access to the network inside of a layer, see `Subnetwork`"""
        return Subnetwork(self, name, opts)

    def get_layer(self, layer_name: str) -> LayerBase:
        """
        :param layer_name: see `returnn.tf.network.layer_names`
        :return: the layer; it is not made if it does not exist
        :raises LayerNotFound: if there is no such layer
        """
        if layer_name in self.layers:
            return self.layers[layer_name]
        found = self.construction.paths.find(self.layers_desc, layer_name)
        if found is None and self.extra.base is not None and self.extra.takes_layers_of_base:
            return self.extra.base.get_layer(layer_name)
        if found is None:
            raise layer_not_found(self, layer_name, {**self.layers_desc, **self.layers})
        return found

    def get_default_output_layer(self, must_exist: bool = True) -> LayerBase | None:
        """:return: the output layer"""
        name = self.get_default_output_layer_name()
        if name not in self.layers and not must_exist:
            return None
        return self.get_layer(name)

    def layer_creation_scope(
        self, layer_class: type[LayerBase] = LayerBase, **kwargs: Any
    ) -> AbstractContextManager[None]:
        """:return: what `__init__` of a user's layer class runs in"""
        options = {key: kwargs[key] for key in ("name", "name_scope") if key in kwargs}
        return layer_creation_scope(self, layer_class, **options)

    def register_network_scope(self) -> AbstractContextManager[None]:
        """:return: context that makes this network the current one, and its train flag that of functions"""
        return training_scope(self)

    # All layers.

    def get_output_layers(self) -> list[LayerBase]:
        """:return: all layers which are computed for their own sake"""
        return layer_lists.output_layers(self)

    def get_all_layers_shallow(self) -> list[LayerBase]:
        """:return: the layers of this network"""
        return layer_lists.own_layers(self)

    def get_all_layers_deep(self) -> list[LayerBase]:
        """:return: the layers of this network and of all networks inside of them"""
        return layer_lists.all_layers(self, self.params.more_layers)

    def subnets_without_layer(self) -> dict[str, Any]:
        """:return: by name: networks of which only layers inside were made, and not the layer that they belong to"""
        return layer_lists.subnets_without_layer(self)

    def print_network_info(self, name: str = "Network") -> None:
        """
        Writes a table of the layers into the log.

        :param name: of the network
        """
        layer_lists.print_layers(self, name, self.params.num_values())

    def get_used_targets(self) -> set[str]:
        """:return: keys of the data that some layer has as target"""
        return layer_lists.used_targets(self)

    # Train flag and random numbers.

    def cond_on_train(self, fn_train: Callable[[], Any], fn_eval: Callable[[], Any]) -> Any:
        """:return: raw tensor: fn_train() in training, fn_eval() otherwise"""
        if isinstance(self.train_flag, bool):
            return fn_train() if self.train_flag else fn_eval()
        return tf.cond(self.train_flag, fn_train, fn_eval)

    @property
    def is_training_objective(self) -> bool:
        """Whether the objective of this network can be one of training."""
        return not (isinstance(self.train_flag, bool) and not self.train_flag)

    def random_seed(self) -> int:
        """:return: seed for the next random operation or parameter"""
        return int(self.get_root_network().random.randint(2**31 - 1))

    def __repr__(self) -> str:
        path = self.get_absolute_name_prefix()
        flags = f"train={self.train_flag}" + (" search" if self.search_flag else "")
        return f"<TFNetwork {self.name or 'root'!r} {path} {flags}>"


def _only_layers(net_dict: Mapping[str, Any]) -> NetDict:
    return {name: desc for name, desc in net_dict.items() if not name.startswith("#")}


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value
