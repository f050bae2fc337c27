"""Networks inside of each other: names, paths, and the loop that a network is part of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from returnn.log import log
from returnn.tensor import batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.name_scope import scope_name, scope_of_params
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.tf.layers.structure.subnetwork import subnetwork_sources
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.layer_names import DataNotFound, naming_as_written, where_it_is_needed
from returnn.util.errors import ConfigError, nearest_hint

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor
    from returnn.tensor.batch_info import BatchInfo
    from returnn.tf.network.network import TFNetwork


class NetworkTree:
    """The part of `TFNetwork` about networks around it and inside of it."""

    def _init_tree(self: TFNetwork) -> None:
        self._name_scope_prefix: str | None = None
        self.extra_layers_with_params: list[LayerBase] = []  # not found by name, as for initial outputs of a loop
        self._is_dict_trainable = True  # key "#trainable" of the net dict
        self._owner_options: dict[str, Any] | None = None  # of the subnetwork layer that this network is inside of
        self._partly_used: list[tuple[TFNetwork, str]] = []  # subnetworks of which only some layers were asked for
        self.frame: Any = None  # returnn.tf.layers.loop.frame.Frame, if this network is the step of a loop

    def make_subnetwork(self: TFNetwork, name: str, options: dict[str, Any]) -> TFNetwork:
        """
        :param name: of the layer that the network is inside of, which need not exist yet
        :param options: of that layer; the sources as layers (`sources`), or by name (`from`)
        :return: the network, always the same one
        """
        net = self.subnets.get(name)
        if net is None:
            net = type(self)(
                parent_net=self,
                extern_data=ExternData(default_target=self.extern_data.default_target),
                absolute_name_prefix=f"{self.get_absolute_name_prefix()}{name}/",
                name=name,
            )
            layers = {key: desc for key, desc in options["subnetwork"].items() if not key.startswith("#")}
            net.layers_desc.update(layers)
            net._is_dict_trainable = options["subnetwork"].get("#trainable", True) is not False
            net._name_scope_prefix = scope_of_params(
                scope_name(name), name_scope=options.get("name_scope"), outer=self.get_absolute_name_scope_prefix()
            )
            self.subnets[name] = net
        if net._owner_options is None or "sources" in options:
            net._owner_options = dict(options)
        return net

    @property
    def is_trainable(self: TFNetwork) -> bool:
        """Whether training changes parameters in here, as far as the layers around say."""
        own = (self._owner_options or {}).get("trainable", getattr(self.parent_layer, "trainable", None))
        if own is False or not self._is_dict_trainable:
            return False
        return self.parent_net is None or self.parent_net.is_trainable

    def shared_params_owner(self: TFNetwork) -> tuple[Any, LayerBase | None]:
        """
        :return: `reuse_params` of the innermost loop or masked computation around that has this option, and its layer.
            Not of a subnetwork: it has no parameters of its own, and those of the layers inside are theirs
        """
        is_subnetwork = "subnetwork" in (self._owner_options or {})
        reuse = None if is_subnetwork else getattr(self.parent_layer, "reuse_params", None)
        if reuse is not None:
            return reuse, self.parent_layer
        return (None, None) if self.parent_net is None else self.parent_net.shared_params_owner()

    def _data_of_sources(self: TFNetwork) -> None:
        """Makes the data of a subnetwork from the sources of its layer, when it is first needed."""
        options = self._owner_options
        if options is None or self.extern_data.data:
            return
        assert self.parent_net is not None
        names = options.get("from", [])
        names = [names] if isinstance(names, str) else names
        parent = self.parent_net
        sources = options.get("sources") or [parent.construct_layer(parent.layers_desc, name) for name in names]
        frame = self.innermost_frame()
        for source in sources if frame is not None else ():
            frame.note_use(source)
        sources = SearchChoices.translate_to_common_search_beam(list(sources))
        self.extern_data.data.update(subnetwork_sources(options, sources))

    def get_root_network(self: TFNetwork) -> TFNetwork:
        """:return: the outermost network"""
        outer = self.parent_net or self.extra_parent_net
        return outer.get_root_network() if outer is not None else self

    def get_root_ctx_network(self: TFNetwork) -> tuple[TFNetwork, str]:
        """:return: the outermost network that is not another version of one; and what names begin with in there"""
        if self.extra_parent_net is not None:
            return self.extra_parent_net.get_root_ctx_network()
        if self.parent_net is None:
            return self, ""
        root, prefix = self.parent_net.get_root_ctx_network()
        own = f"{self.parent_layer.name}/" if self.parent_layer is not None else ""
        return root, prefix + own

    def get_network_hierarchy(self: TFNetwork) -> list[TFNetwork]:
        """:return: the networks from the outermost to this one"""
        outer = self.parent_net or self.extra_parent_net
        return [*(outer.get_network_hierarchy() if outer is not None else []), self]

    def get_absolute_name_prefix(self: TFNetwork) -> str:
        """:return: what absolute names of layers begin with: "" or "outer/" """
        if self._absolute_name_prefix is not None:
            return self._absolute_name_prefix
        if self.parent_layer is not None:
            return f"{self.parent_layer.get_absolute_name()}/"
        if self.extra_parent_net is not None:
            return self.extra_parent_net.get_absolute_name_prefix()
        return self.parent_net.get_absolute_name_prefix() if self.parent_net is not None else ""

    def get_absolute_name_scope_prefix(self: TFNetwork) -> str:
        """:return: what names of variables begin with: "" or "outer/" """
        if self._name_scope_prefix is not None:
            return self._name_scope_prefix
        if self.parent_layer is not None:
            return self.parent_layer.get_absolute_name_scope_prefix()
        outer = self.parent_net or self.extra_parent_net
        return outer.get_absolute_name_scope_prefix() if outer is not None else ""

    @property
    def extra_name_prefix_text(self: TFNetwork) -> str:
        """What names of such another version of the network begin with."""
        return f"{self.extra_name_prefix}:" if self.extra_name_prefix else ""

    def _find_by_path(
        self: TFNetwork,
        net_dict: dict[str, Any],
        name: str,
        get_layer: Callable[[str], LayerBase] | None = None,
        add_layer: Callable[..., LayerBase] | None = None,
    ) -> LayerBase | None:
        """:return: layer by a name that is not in the net dict, see `returnn.tf.network.layer_names`"""
        if name == "data" or name.startswith("data:"):
            return self._data_layer(name)
        if name == ":i":
            return self.get_rec_step_info()
        if name.startswith("extra.") and ":" in name:
            return self._layer_of_extra_net(net_dict, name)
        if name.startswith("prev:"):
            rest = name[len("prev:") :]
            with naming_as_written(self, "prev:", rest):
                return self._prev_layer(rest)
        for prefix, outer in (("base:", self.parent_net), ("../", self.parent_net), ("root:", self.get_root_network())):
            if name.startswith(prefix):
                rest = name[len(prefix) :]
                if outer is None:
                    where = f"{where_it_is_needed(self)}layer name {name!r}"
                    raise ConfigError(f"{where}: this is the outermost network, there is none around it.")
                with naming_as_written(self, prefix, rest):
                    return outer.construct_layer(outer.layers_desc, rest)
        if "/" not in name:
            return None
        first, _, rest = name.partition("/")
        if first in net_dict and first not in self.layers:
            subnet = self._subnetwork(first, net_dict[first], get_layer)
            if subnet is not None:
                self.get_root_network().note_partly_used(self, first)
                return subnet.construct_layer(subnet.layers_desc, rest)
        layer = self.construct_layer(net_dict, first, get_layer=get_layer, add_layer=add_layer)
        sub_layer = layer.get_sub_layer(rest)
        frame = self.innermost_frame()
        path = None if frame is None else frame.path_of(self.get_absolute_name_prefix() + name)
        if path is not None and sub_layer is not None and path not in frame.layers:
            with frame.constructing(path):
                frame.note_use(layer)
            sub_layer.collocate_with = [path[: -len(rest) - 1]]  # only the layer itself can make it
            frame.note_layer(path, sub_layer)
        return sub_layer

    def note_partly_used(self, network: TFNetwork, name: str) -> None:
        """
        :param network: with a subnetwork of which a layer was asked for
        :param name: of the subnetwork
        """
        if network.innermost_frame() is None:
            self._partly_used.append((network, name))

    def complete_subnetworks(self) -> None:
        """
        Makes subnetworks of which only some layers were asked for. They are made on their own, so that sources and what
        is made of them can be in any order; but in the end a subnetwork is there as a whole, or not at all: checkpoints
        have all of its parameters.
        """
        while self._partly_used:
            network, name = self._partly_used.pop()
            if name not in network.layers and "output" in network.subnets[name].layers_desc:
                network.construct_layer(network.layers_desc, name)

    def _subnetwork(
        self: TFNetwork, name: str, desc: dict[str, Any], get_layer: Callable[[str], LayerBase] | None
    ) -> TFNetwork | None:
        """:return: the network inside of a layer, if its layers can be made one by one; the layer need not exist"""
        if "class" not in desc:
            return None
        return get_layer_class(desc["class"]).cls_get_sub_network(name=name, network=self, layer_desc=desc)

    def _data_layer(self: TFNetwork, name: str) -> LayerBase:
        with self.constructing_in_frame(name):
            self._data_of_sources()
        key = name.partition(":")[2] or self.extern_data.default_input
        self.make_layer_that_registers(key)
        datas = [self.extern_data, self.get_root_network().extern_data]
        if key not in ("seq_tag", "seq_idx") and not any(data.has_data(key) for data in datas):
            known = {known_key for data in datas for known_key in data.data}
            raise DataNotFound(f"{where_it_is_needed(self)}there is no data {key!r}.\n  {nearest_hint(key, known)}")
        layer_class = get_layer_class("source")
        return self.add_layer(name, layer_class, data_key=key, sources=[])

    def make_layer_that_registers(self: TFNetwork, key: str) -> None:
        """Makes the layer whose option `register_as_extern_data` is this key, if there is no such data yet."""
        root = self.get_root_network()
        if root.extern_data.has_data(key):
            return
        for name, desc in root.layers_desc.items():
            is_it = isinstance(desc, dict) and desc.get("register_as_extern_data") == key
            if is_it and name not in root.layers and name not in root._constructing:
                root.construct_layer(root.layers_desc, name)

    # Loops.

    def innermost_frame(self: TFNetwork) -> Any:
        """:return: the frame of the loop whose step this network is part of, None outside of loops"""
        if self.frame is not None or self.parent_net is None or self._owner_options is None:
            return self.frame
        return self.parent_net.innermost_frame()

    def state_of_frame_before(self: TFNetwork, layer: LayerBase, key: str, template: Tensor) -> Tensor:
        """:return: state of a layer after the frame before, inside of a loop"""
        frame = self.innermost_frame()
        if frame is None:
            raise ConfigError(f"{layer.where()}: keeps state from frame to frame, so it has to be inside of a loop.")
        return frame.state_before(frame.path_of(layer.get_absolute_name()), key, template)

    def make_extern_data_for_loop(self: TFNetwork, data: dict[str, Tensor]) -> ExternData:
        """:return: data for the time step of a loop, which begins with what the loop gives"""
        extern_data = ExternData(default_input="source", default_target=self.extern_data.default_target)
        extern_data.data.update(data)
        return extern_data

    def batch_dims_of_frame(self: TFNetwork) -> list[Dim]:
        """:return: dims that an output in a loop has at least: the batch"""
        return [batch_dim]

    def innermost_step_of_loop(self: TFNetwork) -> bool:
        """:return: whether this network is part of a single step of a loop, so that its values are of no use outside"""
        return self.inside_rec_time_dim is not None or (
            self.parent_net is not None and self._owner_options is not None and self.parent_net.innermost_step_of_loop()
        )

    def constructing_in_frame(self: TFNetwork, name: str) -> Any:
        """:return: context in which the frame knows that the layer of this name is being made"""
        frame = self.innermost_frame()
        path = None if frame is None else frame.path_of(self.get_absolute_name_prefix() + name)
        return contextlib.nullcontext() if path is None else frame.constructing(path)

    def _layer_moved_out(self: TFNetwork, frame: Any, name: str) -> LayerBase | None:
        path = frame.path_of(self.get_absolute_name_prefix() + name)
        layer = None if path is None else frame.moved_layer(path)
        if layer is not None:
            self.layers[name] = layer
        return layer

    def _prev_layer(self: TFNetwork, name: str) -> LayerBase:
        """:return: layer in the frame before; `name` is seen from this network"""
        frame = self.innermost_frame()
        if frame is None:
            where = f"{where_it_is_needed(self)}layer name 'prev:{name}'"
            raise ConfigError(f"{where}: 'prev:' means the frame before, but this is not inside of a loop.")
        path = frame.path_of(self.get_absolute_name_prefix() + name)
        assert path is not None
        return frame.prev_layer(path)

    def is_inside_rec_layer(self: TFNetwork, inside_loop: bool = True) -> bool:
        """
        :param inside_loop: only if this is one frame; otherwise also if it stands for all frames of a loop
        """
        return self.get_inside_rec_time_dim(inside_loop=inside_loop) is not None

    def get_inside_rec_time_dim(self: TFNetwork, inside_loop: bool = True) -> Dim | None:
        """:return: the dim of the innermost loop that this network is part of"""
        if self.inside_rec_time_dim is not None:
            return self.inside_rec_time_dim
        if self.over_rec_time_dim is not None:
            return None if inside_loop else self.over_rec_time_dim
        outer = self.parent_net or self.extra_parent_net
        return outer.get_inside_rec_time_dim(inside_loop=inside_loop) if outer is not None else None

    def get_all_rec_time_dims(self: TFNetwork) -> set[Dim]:
        """:return: the dims of all loops that this network is part of"""
        outer = self.parent_net or self.extra_parent_net
        dims = outer.get_all_rec_time_dims() if outer is not None else set()
        own = {self.inside_rec_time_dim, self.over_rec_time_dim} - {None}
        return dims | own | self.over_rec_time_dim_subs  # type: ignore[return-value]

    def get_control_flow_ctx(self: TFNetwork) -> Any:
        """:return: the loop or branch that this network lives in"""
        outer = self.parent_net or self.extra_parent_net
        if self.control_flow_ctx is not None or outer is None:
            return self.control_flow_ctx
        return outer.get_control_flow_ctx()

    def get_rec_parent_layer(self: TFNetwork, inside_loop: bool = True) -> LayerBase | None:
        """:return: the loop that this network is part of"""
        if self.inside_rec_time_dim is not None or (not inside_loop and self.over_rec_time_dim is not None):
            return self.parent_layer
        outer = self.parent_net or self.extra_parent_net
        return outer.get_rec_parent_layer(inside_loop=inside_loop) if outer is not None else None

    def have_rec_step_info(self: TFNetwork) -> bool:
        """:return: whether this is one frame of a loop whose number is known"""
        return self.get_rec_step_info(must_exist=False) is not None

    def get_rec_step_info(self: TFNetwork, must_exist: bool = True) -> LayerBase | None:
        """:return: the layer ":i", with the number of the frame"""
        if ":i" in self.layers:
            return self.layers[":i"]
        outer = self.parent_net or self.extra_parent_net
        if outer is not None:
            return outer.get_rec_step_info(must_exist=must_exist)
        if must_exist:
            raise ConfigError("layer ':i': this is not inside of a loop.")
        return None

    def get_rec_step_index(self: TFNetwork) -> Any:
        """:return: raw scalar, number of the frame in the loop, from 0 on"""
        info = self.get_rec_step_info()
        assert info is not None
        return info.index.raw_tensor

    def set_rec_step_info(
        self: TFNetwork,
        i: Any,
        prev_end_flag: Any = None,
        prev_end_layer: Any = None,
        seq_lens: Any = None,
        offset: Tensor | None = None,
    ) -> None:
        """
        :param i: number of the frame
        :param prev_end_flag: (B,), whether the sequence has ended
        :param prev_end_layer: the layer "prev:end"
        :param seq_lens: (B,), lengths, if they are known
        :param offset: scalar: number of the first frame
        """
        self.layers[":i"] = get_layer_class(":i")(
            name=":i",
            network=self,
            i=i,
            prev_end_flag=prev_end_flag,
            prev_end_layer=prev_end_layer,
            seq_lens=seq_lens,
            offset=offset,
        )

    # Search.

    def get_search_choices(
        self: TFNetwork, sources: Any = None, src: LayerBase | None = None, base_search_choice: Any = None, **_: Any
    ) -> Any:
        """:return: the latest choice that the layers depend on, None without search"""
        todo = list(sources or ([] if src is None else src.get_dep_layers()))
        seen: set[int] = set()
        while todo:
            layer = todo.pop(0)
            if id(layer) in seen:
                continue
            seen.add(id(layer))
            if layer.search_choices is not None:
                return layer.search_choices
            todo += layer.get_dep_layers()
        return None

    # All layers.

    def get_all_layers_shallow(self: TFNetwork) -> list[LayerBase]:
        """:return: the layers of this network"""
        return [layer for _, layer in sorted(self.layers.items())]

    def get_all_layers_deep(self: TFNetwork) -> list[LayerBase]:
        """:return: the layers of this network and of all networks inside of them"""
        found: list[LayerBase] = [layer for layer in self.extra_layers_with_params if layer.params]
        for layer in self.get_all_layers_shallow():
            if layer in found:
                continue
            found.append(layer)
            for net in layer.get_sub_networks():
                found += [inner for inner in net.get_all_layers_deep() if inner not in found]
        for net in self.subnets_without_layer().values():
            found += [inner for inner in net.get_all_layers_deep() if inner not in found]
        return found

    def subnets_without_layer(self: TFNetwork) -> dict[str, TFNetwork]:
        """:return: by name: networks of which only layers inside were made, and not the layer that they belong to"""
        return {name: net for name, net in sorted(self.subnets.items()) if name not in self.layers}

    def get_used_targets(self: TFNetwork) -> set[str]:
        """:return: keys of the data that some layer has as target"""
        targets = {target for layer in self.get_all_layers_deep() for target in layer.targets or ()}
        return {target for target in targets if not target.startswith("layer:")}

    def get_data_batch_dim(self: TFNetwork) -> Any:
        """:return: raw size of the batch"""
        return batch_dim.get_dim_value()

    def get_global_batch_info(self: TFNetwork) -> BatchInfo:
        """:return: what the batch axis of the data consists of"""
        info = self.get_root_network().extern_data.get_batch_info()
        assert info is not None
        return info.get_global_base()

    def is_extra_internal_template_construction(self: TFNetwork) -> bool:
        """:return: whether the layers in here only infer dims"""
        return self.only_template

    def print_network_info(self: TFNetwork, name: str = "Network") -> None:
        """
        Writes a table of the layers into the log.

        :param name: of the network
        """
        print(f"{name} layer topology:", file=log.v2)
        print(f"  extern data: {self.extern_data.get_data_description()}", file=log.v2)
        for layer in self.get_all_layers_deep():
            kind, output = layer.layer_class or type(layer).__name__, layer.output
            print(f"  layer {layer.get_absolute_name()!r} (class {kind!r}) {output}", file=log.v2)
        print(f"  number of parameters: {self.get_num_params()}", file=log.v2)

    def get_seq_tags(self: TFNetwork, mark_data_key_as_used: bool = True, beam: Any = None) -> Any:
        """:return: raw (B,): tags of the sequences"""
        data: Tensor = self.get_extern_data("seq_tag", mark_data_key_as_used=mark_data_key_as_used)
        return data.copy_extend_with_beam(beam).raw_tensor
