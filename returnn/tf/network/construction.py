"""`Construction`: makes the layers of a network, each when another one needs it, and the networks inside of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import returnn.frontend as rf
from returnn.log import log
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.name_scope import scope_name, scope_of_params
from returnn.tf.layers.core.network_protocol import GetLayer, InnerNetwork, NetDict, Network
from returnn.tf.layers.core.step_state import UndefinedSource
from returnn.tf.layers.options.layer_errors import naming_layer
from returnn.tf.layers.options.layer_options import without_none
from returnn.tf.layers.options.past import translated
from returnn.tf.layers.options.registry import get_layer_class, is_choice
from returnn.tf.layers.structure.source import SourceLayer
from returnn.tf.layers.structure.unavailable_data import (
    DataNotAvailableLayer,
    missing_below,
    needs_unavailable_data,
)
from returnn.tf.layers.user_code.derived_class import as_template_says, has_own_template
from returnn.tf.layers.user_code.outside_view import making_layers
from returnn.tf.network.common_beam import on_common_beam
from returnn.tf.network.construction_order import sources_first
from returnn.tf.network.data import NetworkData
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.extra_nets import ExtraNets, check_extra_entry, is_name_in_extra_net
from returnn.tf.network.layer_names import (
    LayerNotFound,
    NetworkConstructionDependencyLoopException,
    layer_not_found,
)
from returnn.tf.network.layer_paths import LayerPaths
from returnn.tf.network.params import NetworkParams
from returnn.tf.network.place import NetworkPlace
from returnn.tf.network.raw_layers import create_raw_layer, is_raw_class, known_layers_in, with_unknown_past
from returnn.tf.network.scopes import compute_scope, layer_creation_scope
from returnn.tf.network.step import StepOfLoop
from returnn.tf.util.error_text import is_of_toolkit
from returnn.util.errors import ConfigError
from returnn.util.system.recursion_limit import more_recursion

AddLayer = Callable[..., LayerBase]
MakeNetwork = Callable[..., Network]
_CALLS_PER_LAYER = 40  # nested ones: a layer makes its sources, which make theirs


class Construction:
    """Makes layers from their options in a net dict."""

    def __init__(
        self,
        net: Network,
        place: NetworkPlace,
        step: StepOfLoop,
        data: NetworkData,
        params: NetworkParams,
        extra: ExtraNets,
        make_network: MakeNetwork,
    ) -> None:
        """
        :param net: gets the layers
        :param place: of the network
        :param step: the loop that it is part of
        :param data: of the network
        :param params: of the network
        :param extra: other versions of the network
        :param make_network: makes a network inside of this one
        """
        self.net = net
        self.place = place
        self.step = step
        self.data = data
        self.params = params
        self.extra = extra
        self.paths = LayerPaths(net, place, step, data, extra)
        self.under_construction: list[str] = []  # the last one is made right now
        self.partly_used: list[tuple[Network, str]] = []  # subnetworks of which only some layers were asked for
        self._make_network = make_network

    @property
    def current(self) -> str | None:
        """Name of the layer that is being made."""
        return self.under_construction[-1] if self.under_construction else None

    # Many layers.

    @making_layers()
    def construct_all(self, net_dict: NetDict, get_layer: GetLayer | None = None) -> None:
        """
        Makes all layers that are needed: the output, those with a loss, those with `is_output_layer`.

        :param net_dict: options of each layer, by name. With the key "#trainable", False, training changes none of them
        :param get_layer: function that gives the layer of a name, instead of the usual
        :raises ConfigError: if something in it is wrong
        """
        net = self.net
        self.data.see_to_placeholders()
        self.params.is_dict_trainable = net_dict.get("#trainable", True) is not False
        net.layers_desc.update({name: desc for name, desc in net_dict.items() if not name.startswith("#")})
        with more_recursion(_CALLS_PER_LAYER * _num_layers(net_dict) if self.place.around is None else 0):
            for name, desc in net.layers_desc.items():
                self._check_is_dict(name, desc)
                if self.is_wanted(name, desc):
                    self._construct_wanted(net_dict, name, get_layer)
            if self.place.around is None:
                self._complete_subnetworks()

    def _complete_subnetworks(self) -> None:
        """
        Makes subnetworks of which only some layers were asked for. They are made on their own, so that sources and what
        is made of them can be in any order; but in the end a subnetwork is there as a whole, or not at all: checkpoints
        have all of its parameters.
        """
        while self.partly_used:
            network, name = self.partly_used.pop()
            if name not in network.layers and "output" in network.subnets[name].layers_desc:
                network.construct_layer(network.layers_desc, name)

    def _construct_wanted(self, net_dict: NetDict, name: str, get_layer: GetLayer | None) -> None:
        # In a loop, a source need not be known yet, and who takes sources from elsewhere does not want those from here.
        is_plain = get_layer is None and self.step.innermost_frame() is None and not is_name_in_extra_net(name)
        for needed in sources_first(name, self.net.layers_desc) if is_plain else [name]:
            self.net.construct_layer(net_dict, needed, get_layer=get_layer)

    def _check_is_dict(self, name: str, desc: Any) -> None:
        where = f"layer {self.place.name_prefix() + name!r}"
        if not isinstance(desc, dict):
            raise ConfigError(f"{where}: expected a dict of options, got {desc!r}.")
        if is_name_in_extra_net(name):
            check_extra_entry(name, desc)

    def is_wanted(self, name: str, desc: dict[str, Any]) -> bool:
        """:return: whether a layer with these options is made for its own sake"""
        if desc.get("only_on_search") and not self.net.search_flag:
            return False
        if desc.get("only_on_eval") and not self.net.eval_flag:
            return False
        if name == self.net.get_default_output_layer_name() or desc.get("register_as_extern_data"):
            return True
        return bool(desc.get("is_output_layer") or desc.get("loss") is not None or desc.get("class") == "hdf_dump")

    # One layer.

    @making_layers()
    def construct(
        self,
        net_dict: NetDict,
        name: str,
        get_layer: GetLayer | None = None,
        add_layer: AddLayer | None = None,
        check_existing: bool = True,
    ) -> LayerBase:
        """
        :param net_dict: options of each layer, by name
        :param name: see `returnn.tf.network.layer_names`
        :param get_layer: function that gives the layer of a name; default: this one
        :param add_layer: function that makes a layer from name, class and options; default: `add`
        :param check_existing: take the layer if it exists
        :return: the layer, made if necessary, with all that it needs
        """
        frame = self.step.innermost_frame()
        layer = self.net.layers.get(name) if check_existing else None
        if layer is None and frame is not None and self.place.view_around is None:
            layer = self.step.moved_layer(name)
            if layer is not None:
                self.net.layers[name] = layer
        if layer is None:
            layer = self.extra.layer_of_base(net_dict, name)
        if layer is None:
            with self._backend():
                layer = self.construct_new(net_dict, name, get_layer, add_layer)
        if frame is not None:
            frame.note_use(layer)
        return layer

    def _backend(self) -> Any:
        """:return: context: a loop that only infers dims may need a layer from outside, which is a real one"""
        is_inferring = rf.get_selected_backend() == "template"
        if is_inferring == self.net.only_template:
            return contextlib.nullcontext()
        return rf.backend_ctx("template" if self.net.only_template else "tf")

    def construct_new(
        self, net_dict: NetDict, name: str, get_layer: GetLayer | None, add_layer: AddLayer | None
    ) -> LayerBase:
        """:return: see `construct`; the layer does not exist"""
        if name not in net_dict or is_name_in_extra_net(name):
            found = self.paths.find(net_dict, name, get_layer=get_layer, add_layer=add_layer)
            if found is None:
                raise layer_not_found(self.net, name, net_dict)
            return found
        frame = self.step.innermost_frame()
        if name in self.under_construction:
            if frame is not None and frame.num_guesses:
                raise UndefinedSource(f"layer {self.place.name_prefix() + name!r}: is not known yet.")
            raise NetworkConstructionDependencyLoopException(self.net, name, self.under_construction, net_dict)
        get_layer = get_layer or (lambda source: self.net.construct_layer(net_dict, source, add_layer=add_layer))
        self.under_construction.append(name)
        try:
            with self.step.constructing(name):
                layer_class, options = self.resolve(name, net_dict[name], get_layer)
                return (add_layer or self.net.add_layer)(name, layer_class, **options)
        except UndefinedSource as exc:
            stand_in = frame.make_stand_in(self.net, name) if frame is not None and exc.is_about_past else None
            if stand_in is None:
                raise
            return stand_in
        except ConfigError as exc:
            if frame is None or not frame.has_undefined:
                raise
            # It may be because of what is not known yet, unless a name is wrong. A choice has more than an output.
            is_sure = isinstance(exc, LayerNotFound) or is_choice(net_dict[name].get("class"))
            stand_in = None if is_sure else frame.make_stand_in(self.net, name)
            if stand_in is None:
                raise UndefinedSource(str(exc)) from exc
            frame.passed_over.append(exc)
            return stand_in
        finally:
            self.under_construction.pop()

    def resolve(self, name: str, desc: dict[str, Any], get_layer: GetLayer) -> tuple[type[LayerBase], dict[str, Any]]:
        """
        :param name: of the layer
        :param desc: its options in the net dict
        :param get_layer: function that gives the layer of a name
        :return: class, and options with layers in place of their names
        :raises ConfigError: if there is no such class or option
        """
        self.net.layers_desc[name] = desc
        where = f"layer {self.place.name_prefix() + name!r}"
        self._check_is_dict(name, desc)
        with naming_layer(f"{where} (class {desc.get('class')!r})", dict):
            desc = translated(desc)
        if "class" not in desc:
            raise ConfigError(f"{where}: the option 'class' is required.")
        try:
            layer_class = get_layer_class(desc["class"])
        except ConfigError as exc:
            raise ConfigError(f"{where}: {exc}") from exc
        options = {key: value for key, value in desc.items() if key != "class"}
        options.update(_name=name, _network=self.net)
        if is_raw_class(layer_class):
            get_layer = with_unknown_past(get_layer, self.net)
        with self._naming_layer(name, layer_class, options):
            layer_class.transform_config_dict(options, network=self.net, get_layer=get_layer)
        layer_class.check_options(options, where=f"{where} (class {desc['class']!r})")
        options = without_none(layer_class, options)
        on_common_beam(options, network=self.net)
        return layer_class, options

    @making_layers()
    def add(self, name: str, layer_class: type[LayerBase], **layer_desc: Any) -> LayerBase:
        """
        :param name: of the layer
        :param layer_class: its class
        :param layer_desc: its options, with layers in place of their names
        :return: the layer, which is part of the network now
        """
        with self._naming_layer(name, layer_class, layer_desc):
            layer = self.create(name, layer_class, **layer_desc)
        self.net.layers[name] = layer
        if not self.net.only_template:
            LayerBase.get_global_layer_list().append(layer)
        layer.post_init(layer_desc)
        if not self.net.only_template and self.net.get_config().options.debug_print_layer_output_template:
            print(f"layer {layer.get_absolute_name()!r}: {layer.output}", file=log.v1)
        frame = self.step.innermost_frame()
        path = None if frame is None else frame.path_of(layer.get_absolute_name())
        if frame is not None and path is not None:
            frame.note_layer(path, layer)
        return layer

    def create(self, name: str, layer_class: type[LayerBase], **layer_desc: Any) -> LayerBase:
        """:return: a layer as by `add`, which the network does not know"""
        net = self.net
        if not net.only_template and self._is_unavailable(layer_class, layer_desc):
            return DataNotAvailableLayer.instead_of(layer_class, layer_desc, name=name, network=net)
        if is_raw_class(layer_class):
            return create_raw_layer(net, name, layer_class, layer_desc)
        if is_of_toolkit(layer_class.__module__):
            layer = layer_class(name=name, network=net, **layer_desc)
            if missing := [] if self._has_value(layer) else missing_below(layer):  # as inside of a subnetwork
                return DataNotAvailableLayer.instead_of(layer_class, layer_desc, needs=missing, name=name, network=net)
            return layer
        with layer_creation_scope(net, layer_class, name=name, name_scope=layer_desc.get("name_scope")):
            layer = layer_class(name=name, network=net, **layer_desc)
            if has_own_template(layer_class):
                template = layer_class.get_out_data_from_opts(name=name, network=net, **layer_desc)
                layer.output = as_template_says(layer, template, is_value=not net.only_template)
        return layer

    def _has_value(self, layer: LayerBase) -> bool:
        """:return: whether the output has one; also where none is wanted, as only templates are"""
        is_template = self.net.only_template or rf.get_selected_backend() == "template"
        return is_template or layer.output.raw_tensor is not None

    def _is_unavailable(self, layer_class: type[LayerBase], options: dict[str, Any]) -> bool:
        """:return: whether the data is not there from which the layer is computed"""
        if issubclass(layer_class, SourceLayer):
            return self.step.innermost_frame() is None and not self.data.has_value(options.get("data_key"))
        return needs_unavailable_data(options)

    def _naming_layer(self, name: str, layer_class: type[LayerBase], options: dict[str, Any]) -> Any:
        """:return: context: what goes wrong inside becomes an error about the layer"""
        where = f"layer {self.place.name_prefix() + name!r} (class {layer_class.class_name()!r})"
        return naming_layer(where, lambda: {x.name: x.output for x in known_layers_in(options)})

    def compute_scope(self, layer: LayerBase, suffix: str = "") -> AbstractContextManager[None]:
        """:return: what `compute` of a layer runs in"""
        return compute_scope(self.net, layer, suffix, loop=self.step.in_words)

    # Networks inside of layers.

    def make_subnetwork(self, name: str, options: dict[str, Any], layer: LayerBase | None = None) -> Network:
        """
        :param name: of the layer that the network is inside of, which need not exist yet
        :param options: of that layer; the sources as layers (`sources`), or by name (`from`)
        :param layer: that layer, if it exists
        :return: the network, always the same one
        """
        net = self.net.subnets.get(name)
        if net is None:
            net_dict = options["subnetwork"]
            scope_prefix = scope_of_params(
                scope_name(name), name_scope=options.get("name_scope"), outer=self.place.scope_prefix()
            )
            inner = InnerNetwork(
                layer=layer,
                data={},
                name=name,
                name_prefix=f"{self.place.name_prefix()}{name}/",
                scope_prefix=scope_prefix,
                layer_options=dict(options),
                net_dict=net_dict,
            )
            net = self._make_network(inner, ExternData(default_target=self.net.extern_data.default_target))
            self.net.subnets[name] = net
        net.construction.note_layer_around(layer, options)
        return net

    def note_layer_around(self, layer: LayerBase | None, options: Mapping[str, Any]) -> None:
        """
        Called when the layer that this network is inside of is there, or more is known of it.

        :param layer: that one, None if there is none yet
        :param options: of the layer
        """
        if layer is not None:
            self.place.layer = layer
        if "sources" in options:
            self.place.layer_options = dict(options)

    def make_network_inside(self, inner: InnerNetwork) -> Network:
        """:return: a new network inside of a layer, which begins with what is described"""
        extern_data = ExternData(default_input="source", default_target=self.net.extern_data.default_target)
        extern_data.data.update(inner.data)
        return self._make_network(inner, extern_data)


def _num_layers(net_dict: Any) -> int:
    """:return: number of layers, also of those inside of others"""
    inner = sum(_num_layers(value) for value in net_dict.values() if isinstance(value, dict))
    return inner + ("class" in net_dict)
