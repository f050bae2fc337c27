"""`TFNetwork`: layers, made from a net dict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import get_global_config
from returnn.log import log
from returnn.tensor import Dim, Tensor
from returnn.tensor.control_flow_ctx import ControlFlowContext
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.step_state import UndefinedSource
from returnn.tf.layers.options.layer_errors import naming_layer
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.layers.search.beam import Beams
from returnn.tf.layers.structure.source import SourceLayer
from returnn.tf.layers.structure.unavailable_data import DataNotAvailableLayer, needs_unavailable_data
from returnn.tf.layers.user_code.derived_class import as_template_says, has_own_template, with_own_beam
from returnn.tf.network.common_beam import merge_beams, on_common_beam
from returnn.tf.network.construction_order import sources_first
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.extra_nets import NetworkExtra
from returnn.tf.network.float_dtype import float_dtype_of_config
from returnn.tf.network.layer_names import NetworkConstructionDependencyLoopException, layer_not_found
from returnn.tf.network.network_losses import NetworkLosses
from returnn.tf.network.network_params import NetworkParams
from returnn.tf.network.network_run import NetworkRun
from returnn.tf.network.network_tree import NetworkTree
from returnn.tf.network.raw_layers import create_raw_layer, is_raw_class, known_layers_in, with_unknown_past
from returnn.tf.network.subnet_access import Subnetwork
from returnn.tf.network.train_flag import train_flag_ctx
from returnn.tf.util.error_text import is_of_toolkit
from returnn.util.errors import ConfigError
from returnn.util.system.recursion_limit import more_recursion
from returnn.util.user_code import prepare_for_user_code

tf1 = tf.compat.v1

_network_stack: list[TFNetwork] = []
_CALLS_PER_LAYER = 40  # nested ones: a layer makes its sources, which make theirs


class TFNetwork(NetworkTree, NetworkExtra, NetworkParams, NetworkLosses, NetworkRun):
    """Layers, made from a net dict. A network inside of a layer is one, too."""

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
        """
        prepare_for_user_code()
        outer = parent_net or extra_parent_net
        self.name = name
        self.only_template = outer.only_template if outer else False  # no values: layers are made to infer dims alone
        self.parent_layer = parent_layer
        self.parent_net = parent_net
        self.extra_parent_net = extra_parent_net
        self.extra_name_prefix = extra_name_prefix
        self._config = config
        self._absolute_name_prefix = absolute_name_prefix
        self.inside_rec_time_dim = inside_rec_time_dim
        self.over_rec_time_dim = over_rec_time_dim
        self.over_rec_time_dim_subs = over_rec_time_dim_subs or set()
        self.control_flow_ctx = control_flow_ctx
        self.train_flag = _given(train_flag, outer.train_flag if outer else False)
        self.eval_flag = _given(eval_flag, outer.eval_flag if outer else not isinstance(train_flag, bool) or train_flag)
        self.search_flag = _given(search_flag, outer.search_flag if outer else False)
        self.rnd_seed = 42 if rnd_seed is None else rnd_seed
        self.random = numpy.random.RandomState(self.rnd_seed)
        self.beams: Beams = outer.beams if outer else Beams()
        # The same layer in an extra network may have other lengths.
        self.dims_of_layers: dict[Any, Dim] = outer.dims_of_layers if outer and extra_parent_net is None else {}
        self.float_dtype: str = outer.float_dtype if outer else float_dtype_of_config(self.get_config())
        self.extern_data = extern_data if extern_data is not None else self._make_extern_data()
        self.layers: dict[str, LayerBase] = {}
        self.layers_desc: dict[str, dict[str, Any]] = {}
        self.subnets: dict[str, Any] = {}
        self.extra_nets: dict[str, TFNetwork] = {}
        self.takes_layers_of_base = extra_parent_net is not None
        self.used_data_keys: set[str] = set()
        self._constructing: list[str] = []
        self._init_params(outer)
        self._init_losses()
        self._init_run()
        self._init_tree()

    def _make_extern_data(self) -> ExternData:
        extern_data = ExternData()
        extern_data.init_from_config(self.get_config(), auto_create_placeholders=True)
        return extern_data

    def get_config(self, consider_global_config: bool = True, fallback_dummy_config: bool = True) -> Any:
        """
        :param consider_global_config: take the global config if there is none
        :param fallback_dummy_config: take an empty one if there is no global one either
        """
        if self._config is not None:
            return self._config
        outer = self.parent_net or self.extra_parent_net
        if outer is not None:
            return outer.get_config(consider_global_config, fallback_dummy_config)
        if consider_global_config:
            return get_global_config(raise_exception=not fallback_dummy_config, auto_create=fallback_dummy_config)
        return None

    # Construction.

    def construct_from_dict(
        self, net_dict: dict[str, Any], get_layer: Callable[[str], LayerBase] | None = None
    ) -> None:
        """
        Makes all layers that are needed: the output, those with a loss, those with `is_output_layer`.

        :param net_dict: options of each layer, by name. With the key "#trainable", False, training changes none of them
        :param get_layer: function that gives the layer of a name, instead of the usual
        :raises ConfigError: if something in it is wrong
        """
        self._is_dict_trainable = net_dict.get("#trainable", True) is not False
        self.layers_desc.update({name: desc for name, desc in net_dict.items() if not name.startswith("#")})
        is_outermost = self.parent_net is None and self.extra_parent_net is None
        with more_recursion(_CALLS_PER_LAYER * _num_layers(net_dict) if is_outermost else 0):
            for name, desc in self.layers_desc.items():
                self._check_is_dict(name, desc)
                if self._is_wanted(name, desc):
                    self._construct_wanted(net_dict, name, get_layer)
            if is_outermost:
                self.complete_subnetworks()
        if self.get_root_network() is self and not self.only_template:
            merge_beams(self)

    def _construct_wanted(
        self, net_dict: dict[str, Any], name: str, get_layer: Callable[[str], LayerBase] | None
    ) -> None:
        # In a loop, a source need not be known yet, and who takes sources from elsewhere does not want those from here.
        is_plain = get_layer is None and self.innermost_frame() is None
        for needed in sources_first(name, self.layers_desc) if is_plain else [name]:
            self.construct_layer(net_dict, needed, get_layer=get_layer)

    def _check_is_dict(self, name: str, desc: Any) -> None:
        if not isinstance(desc, dict):
            full_name = self.get_absolute_name_prefix() + name
            raise ConfigError(f"layer {full_name!r}: expected a dict of options, got {desc!r}.")

    def _is_wanted(self, name: str, desc: dict[str, Any]) -> bool:
        if desc.get("only_on_search") and not self.search_flag:
            return False
        if desc.get("only_on_eval") and not self.eval_flag:
            return False
        if name == self.get_default_output_layer_name() or desc.get("register_as_extern_data"):
            return True
        return bool(desc.get("is_output_layer") or desc.get("loss") is not None or desc.get("class") == "hdf_dump")

    def construct_layer(
        self,
        net_dict: dict[str, Any],
        name: str,
        get_layer: Callable[[str], LayerBase] | None = None,
        add_layer: Callable[..., LayerBase] | None = None,
        check_existing: bool = True,
    ) -> LayerBase:
        """
        :param net_dict: options of each layer, by name
        :param name: see `returnn.tf.network.layer_names`
        :param get_layer: function that gives the layer of a name; default: this one
        :param add_layer: function that makes a layer from name, class and options; default: `add_layer`
        :param check_existing: take the layer if it exists
        :return: the layer, made if necessary, with all that it needs
        """
        frame = self.innermost_frame()
        layer = self.layers.get(name) if check_existing else None
        if layer is None and frame is not None:
            layer = self._layer_moved_out(frame, name)
        if layer is None:
            layer = self._layer_of_base(net_dict, name)
        if layer is None:
            with self._backend_for_construction():
                layer = self._construct(net_dict, name, get_layer, add_layer)
        if frame is not None:
            frame.note_use(layer)
        return layer

    def _backend_for_construction(self) -> Any:
        """:return: context: a loop that only infers dims may need a layer from outside, which is a real one"""
        is_inferring = rf.get_selected_backend() == "template"
        if is_inferring == self.only_template:
            return contextlib.nullcontext()
        return rf.backend_ctx("template" if self.only_template else "tf")

    def _construct(
        self,
        net_dict: dict[str, Any],
        name: str,
        get_layer: Callable[[str], LayerBase] | None,
        add_layer: Callable[..., LayerBase] | None,
    ) -> LayerBase:
        if name not in net_dict:
            found = self._find_by_path(net_dict, name, get_layer=get_layer, add_layer=add_layer)
            if found is None:
                raise layer_not_found(self, name, net_dict)
            return found
        if name in self._constructing:
            frame = self.innermost_frame()
            if frame is not None and frame.num_guesses:
                raise UndefinedSource(f"layer {self.get_absolute_name_prefix() + name!r}: is not known yet.")
            raise NetworkConstructionDependencyLoopException(self, name, self._constructing, net_dict)
        get_layer = get_layer or (lambda source: self.construct_layer(net_dict, source, add_layer=add_layer))
        self._constructing.append(name)
        try:
            with self.constructing_in_frame(name):
                layer_class, options = self.resolve_layer(name, net_dict[name], get_layer)
                return (add_layer or self.add_layer)(name, layer_class, **options)
        except UndefinedSource:
            raise
        except ConfigError as exc:
            frame = self.innermost_frame()
            if frame is not None and frame.has_undefined:  # it may be because of what is not known yet
                raise UndefinedSource(str(exc)) from exc
            raise
        finally:
            self._constructing.pop()

    def resolve_layer(
        self, name: str, desc: dict[str, Any], get_layer: Callable[[str], LayerBase]
    ) -> tuple[type[LayerBase], dict[str, Any]]:
        """
        :param name: of the layer
        :param desc: its options in the net dict
        :param get_layer: function that gives the layer of a name
        :return: class, and options with layers in place of their names
        :raises ConfigError: if there is no such class or option
        """
        self.layers_desc[name] = desc
        where = f"layer {self.get_absolute_name_prefix() + name!r}"
        self._check_is_dict(name, desc)
        if "class" not in desc:
            raise ConfigError(f"{where}: the option 'class' is required.")
        try:
            layer_class = get_layer_class(desc["class"])
        except ConfigError as exc:
            raise ConfigError(f"{where}: {exc}") from exc
        options = {key: value for key, value in desc.items() if key != "class"}
        options.update(_name=name, _network=self)
        if is_raw_class(layer_class):
            get_layer = with_unknown_past(get_layer, self)
        with self._naming_layer(name, layer_class, options):
            layer_class.transform_config_dict(options, network=self, get_layer=get_layer)
        layer_class.check_options(options, where=f"{where} (class {desc['class']!r})")
        on_common_beam(options, network=self)
        return layer_class, options

    def add_layer(self, name: str, layer_class: type[LayerBase], **layer_desc: Any) -> LayerBase:
        """
        :param name: of the layer
        :param layer_class: its class
        :param layer_desc: its options, with layers in place of their names
        :return: the layer, which is part of this network now
        """
        with self._naming_layer(name, layer_class, layer_desc):
            layer = self._create_layer(name, layer_class, **layer_desc)
        self.layers[name] = layer
        if not self.only_template:
            LayerBase.get_global_layer_list().append(layer)
        layer.post_init(layer_desc)
        if not self.only_template and self.get_config().options.debug_print_layer_output_template:
            print(f"layer {layer.get_absolute_name()!r}: {layer.output}", file=log.v1)
        frame = self.innermost_frame()
        path = None if frame is None else frame.path_of(layer.get_absolute_name())
        if path is not None:
            frame.note_layer(path, layer)
        return layer

    def _create_layer(self, name: str, layer_class: type[LayerBase], **layer_desc: Any) -> LayerBase:
        if not self.only_template and self._is_unavailable(layer_class, layer_desc):
            return DataNotAvailableLayer.instead_of(layer_class, layer_desc, name=name, network=self)
        if is_raw_class(layer_class):
            return create_raw_layer(self, name, layer_class, layer_desc)
        if is_of_toolkit(layer_class.__module__):
            return layer_class(name=name, network=self, **layer_desc)
        with self.layer_creation_scope(layer_class, name=name, **layer_desc):
            layer = with_own_beam(layer_class(name=name, network=self, **layer_desc))
            if has_own_template(layer_class):
                template = layer_class.get_out_data_from_opts(name=name, network=self, **layer_desc)
                layer.output = as_template_says(layer, template, is_value=not self.only_template)
        return layer

    def _is_unavailable(self, layer_class: type[LayerBase], options: dict[str, Any]) -> bool:
        """:return: whether the data is not there from which the layer is computed"""
        if issubclass(layer_class, SourceLayer):
            return self.innermost_frame() is None and not self.has_value_of_data(options.get("data_key"))
        return needs_unavailable_data(options)

    def has_value_of_data(self, key: str | None) -> bool:
        """
        :param key: of data of this network, or of the outermost one
        :return: whether it is there
        """
        key = self.extern_data.default_input if key is None else key
        found = [net.extern_data.data[key] for net in (self, self.get_root_network()) if key in net.extern_data.data]
        return not found or found[0].raw_tensor is not None

    @contextlib.contextmanager
    def layer_creation_scope(self, layer_class: type[LayerBase] = LayerBase, **kwargs: Any) -> Iterator[None]:
        """What `__init__` of a user's layer class runs in: the same, and this network as the current one."""
        name = kwargs.get("name", "")
        with (
            self.register_network_scope(),
            train_flag_ctx(self.train_flag),
            rf.set_default_float_dtype_ctx(self.float_dtype),
            layer_class.cls_setup_scope(name=name, name_scope=kwargs.get("name_scope")),
        ):
            yield

    @contextlib.contextmanager
    def compute_scope(self, layer: LayerBase, suffix: str = "") -> Iterator[None]:
        """What `compute` of a layer runs in: name scope, train flag, dtype of floats; on templates or on TensorFlow."""
        backend = rf.get_selected_backend()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.register_network_scope())
            stack.enter_context(train_flag_ctx(self.train_flag))
            stack.enter_context(rf.set_default_float_dtype_ctx(self.float_dtype))
            if backend != "template":
                if backend != "tf":
                    stack.enter_context(rf.backend_ctx("tf"))
                scope = f"{layer.cls_get_tf_scope_name(layer.get_absolute_name())}{'/' + suffix if suffix else ''}"
                stack.enter_context(tf1.name_scope(f"{scope}/"))  # as it is: "b_1" would rename parameters
            stack.enter_context(
                naming_layer(
                    layer.where(), lambda: {x.name: x.output for x in layer.sources}, loop=self._loop_in_words()
                )
            )
            yield

    def _loop_in_words(self) -> str:
        """:return: the loop of which this network is a step; empty if it is none"""
        time = self.get_inside_rec_time_dim(inside_loop=True)
        frame = self.innermost_frame()
        return "" if time is None or frame is None else f"the loop {frame.prefix.rstrip('/')!r} over {time}"

    def _naming_layer(self, name: str, layer_class: type[LayerBase], options: dict[str, Any]) -> Any:
        """:return: context: what goes wrong inside becomes an error about the layer"""
        where = f"layer {self.get_absolute_name_prefix() + name!r} (class {layer_class.class_name()!r})"
        return naming_layer(where, lambda: {x.name: x.output for x in known_layers_in(options)})

    @contextlib.contextmanager
    def register_network_scope(self) -> Iterator[None]:
        """Makes this network the current one, inside of the `with` block."""
        _network_stack.append(self)
        try:
            yield
        finally:
            _network_stack.pop()

    @classmethod
    def get_network_stack(cls) -> list[TFNetwork]:
        """:return: the networks whose layers are being made, innermost last"""
        return list(_network_stack)

    @classmethod
    def get_current_network(cls, must_exist: bool = True) -> TFNetwork | None:
        """:return: the network whose layer is being made"""
        if not _network_stack and must_exist:
            raise RuntimeError("no layer of a network is being made right now")
        return _network_stack[-1] if _network_stack else None

    @property
    def layer_under_construction(self) -> str | None:
        """Name of the layer that is being made."""
        return self._constructing[-1] if self._constructing else None

    # Layers and data by name.

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
        found = self._find_by_path(self.layers_desc, layer_name)
        if found is None and self.extra_parent_net is not None and self.takes_layers_of_base:
            return self.extra_parent_net.get_layer(layer_name)
        if found is None:
            raise layer_not_found(self, layer_name, {**self.layers_desc, **self.layers})
        return found

    def get_extern_data(self, key: str, mark_data_key_as_used: bool = True) -> Tensor:
        """
        :param key: of the data; "seq_tag" and "seq_idx" are always there
        :param mark_data_key_as_used: so that the dataset has to provide it
        """
        root = self.get_root_network()
        if key in ("seq_tag", "seq_idx"):
            root.extern_data.add_seq_info(key)
        elif key not in self.extern_data.data:
            self.make_layer_that_registers(key)
        if key in self.extern_data.data or root is self:
            data = self.extern_data.get_data(key)
            is_own = self.extern_data is not root.extern_data
        else:
            data, is_own = root.extern_data.get_data(key), False
            frame = self.innermost_frame()
            if frame is not None:
                data = frame.step_data(key, data)
        if mark_data_key_as_used and not is_own and (self.only_template or self.has_value_of_data(key)):
            root.used_data_keys.add(key if key in root.extern_data.data else root.extern_data.default_input)
        return data

    def get_used_data_keys(self, exclude_extra_added: bool = True) -> set[str]:
        """:return: keys of the data that the layers use"""
        used = set(self.used_data_keys)
        return used - self.extern_data.extra_added_keys if exclude_extra_added else used

    def get_default_output_layer_name(self) -> str:
        """:return: name of the output layer"""
        return "output"

    def get_default_output_layer(self, must_exist: bool = True) -> LayerBase | None:
        """:return: the output layer"""
        name = self.get_default_output_layer_name()
        if name not in self.layers and not must_exist:
            return None
        return self.get_layer(name)

    def get_output_layers(self) -> list[LayerBase]:
        """:return: all layers which are computed for their own sake"""
        return [layer for _, layer in sorted(self.layers.items()) if layer.is_output_layer()]

    def get_default_target(self) -> str:
        """:return: key of the target, where none is given"""
        return self.extern_data.default_target

    def random_seed(self) -> int:
        """:return: seed for the next random operation or parameter"""
        return int(self.get_root_network().random.randint(2**31 - 1))

    # Train flag.

    def cond_on_train(self, fn_train: Callable[[], Any], fn_eval: Callable[[], Any]) -> Any:
        """:return: raw tensor: fn_train() in training, fn_eval() otherwise"""
        if isinstance(self.train_flag, bool):
            return fn_train() if self.train_flag else fn_eval()
        return tf.cond(self.train_flag, fn_train, fn_eval)

    @property
    def is_training_objective(self) -> bool:
        """Whether the objective of this network can be one of training."""
        return not (isinstance(self.train_flag, bool) and not self.train_flag)

    def __repr__(self) -> str:
        path = self.get_absolute_name_prefix()
        flags = f"train={self.train_flag}" + (" search" if self.search_flag else "")
        return f"<TFNetwork {self.name or 'root'!r} {path} {flags}>"


def _num_layers(net_dict: Any) -> int:
    """:return: number of layers, also of those inside of others"""
    inner = sum(_num_layers(value) for value in net_dict.values() if isinstance(value, dict))
    return inner + ("class" in net_dict)


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value
