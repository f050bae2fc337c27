"""`DocumentedNetwork`: the methods that networks are documented to have. Each hands on to the part that it is about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.log import log
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tensor.batch_info import BatchInfo, SearchBeam
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.layers.core.network_protocol import GetLayer, NetDict
from returnn.tf.layers.search.beam import Beams, choices_with_name
from returnn.tf.network import layer_lists
from returnn.tf.network.construction import Construction
from returnn.tf.network.data import NetworkData
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.extra_nets import ExtraNets
from returnn.tf.network.losses import NetworkLosses
from returnn.tf.network.params import NetworkParams, TFNetworkParamsSerialized
from returnn.tf.network.place import NetworkPlace
from returnn.tf.network.run import NetworkRun, add_post_step_operations, post_step_operations
from returnn.tf.network.scopes import network_stack
from returnn.tf.network.step import StepOfLoop
from returnn.tf.util.parameters.regularization import spatial_smoothing_of_output
from returnn.tf.util.parameters.variables import VariableAssigner


class DocumentedNetwork:
    """Networks, as their users know them."""

    place: NetworkPlace
    step: StepOfLoop
    data: NetworkData
    params: NetworkParams
    extra: ExtraNets
    construction: Construction
    losses: NetworkLosses
    run: NetworkRun
    extern_data: ExternData
    layers: dict[str, LayerBase]
    beams: Beams
    only_template: bool
    search_flag: bool

    # Layers.

    @property
    def recurrent(self) -> bool:
        """Whether there is a layer for which the order of the frames matters."""
        return any(layer.recurrent for layer in self.layers.values())

    def construct_layer(
        self,
        net_dict: NetDict,
        name: str,
        get_layer: GetLayer | None = None,
        add_layer: Callable[..., LayerBase] | None = None,
        check_existing: bool = True,
    ) -> LayerBase:
        """See `Construction.construct`."""
        return self.construction.construct(net_dict, name, get_layer, add_layer, check_existing)

    def add_layer(self, name: str, layer_class: type[LayerBase], **layer_desc: Any) -> LayerBase:
        """See `Construction.add`."""
        return self.construction.add(name, layer_class, **layer_desc)

    @classmethod
    def get_network_stack(cls) -> list[Any]:
        """:return: the networks whose layers are being made, innermost last"""
        return network_stack()

    @classmethod
    def get_current_network(cls, must_exist: bool = True) -> Any:
        """:return: the network whose layer is being made"""
        stack = network_stack()
        if not stack and must_exist:
            raise RuntimeError("no layer of a network is being made right now")
        return stack[-1] if stack else None

    def get_default_output_layer_name(self) -> str:
        """:return: name of the output layer"""
        return "output"

    def is_extra_internal_template_construction(self) -> bool:
        """:return: whether the layers in here only infer dims"""
        return self.only_template

    # Search.

    def get_search_choices(
        self,
        sources: Collection[LayerBase] | None = None,
        src: LayerBase | None = None,
        base_search_choice: LayerBase | None = None,
        _layer_to_search_choices: dict[LayerBase, Any] | None = None,
        debug_stream: Any = None,
    ) -> Any:
        """
        :param sources: layers
        :param src: instead, one layer
        :param base_search_choice: instead, a layer: what it depends on counts, and not its own choice
        :param _layer_to_search_choices: is filled: the choice of each layer that was looked at, or None
        :param debug_stream: is told about each layer that was looked at
        :return: the latest choice that the layers depend on, None without search
        """
        layers = [] if sources is None else list(sources)
        if sources is None and src is not None:
            layers = [src] if src.search_choices is not None else src.get_dep_layers()
        elif sources is None and base_search_choice is not None:
            past = base_search_choice._rec_previous_layer  # which layers of a user's own class are given
            layers = [*base_search_choice.get_dep_layers(), *([] if past is None else [past])]
        seen = {} if _layer_to_search_choices is None else _layer_to_search_choices
        return layer_lists.latest_choice(layers, seen=seen, stream=debug_stream)

    def debug_search_choices(self, base_search_choice: LayerBase) -> None:
        """
        Writes to the log which layers a layer depends on, and which of them make choices.

        :param base_search_choice: the layer
        """
        print(f"choices that {base_search_choice.get_absolute_name()!r} depends on:", file=log.v1)
        found = self.get_search_choices(base_search_choice=base_search_choice, debug_stream=log.v1)
        print(f"  the latest: {found}", file=log.v1)

    def register_search_choices_for_beam(self, beam: SearchBeam, search_choices: Any) -> None:
        """
        :param beam: of an output, such as a layer of a user makes it
        :param search_choices: what it comes from
        """
        self.beams.name_choices(beam, search_choices)

    def get_search_choices_from_beam(self, beam: SearchBeam | None) -> Any:
        """:return: the choice that a beam comes from; None if there is no beam"""
        if beam is None:
            return None
        root = self.data.root.net
        return self.beams.choices_named(beam) or choices_with_name(root.get_all_layers_deep(), beam)

    # Where it is.

    @property
    def parent_layer(self) -> LayerBase | None:
        """The layer that it is inside of."""
        return self.place.layer

    @property
    def extra_name_prefix(self) -> str | None:
        """What names of another version of a network begin with."""
        return self.place.extra_prefix

    @property
    def extra_name_prefix_text(self) -> str:
        """The same, with ":" if there is one."""
        return f"{self.place.extra_prefix}:" if self.place.extra_prefix else ""

    @property
    def control_flow_ctx(self) -> Any:
        """The loop or branch that this network is the inside of."""
        return self.place.own_control_flow

    @property
    def inside_rec_time_dim(self) -> Dim | None:
        """The dim of the loop of which this network is one frame."""
        return self.place.inside_time

    @property
    def over_rec_time_dim(self) -> Dim | None:
        """The dim of the loop which this network stands for, all frames at once."""
        return self.place.over_time

    def get_absolute_name_prefix(self) -> str:
        """:return: what absolute names of layers begin with: "" or "outer/" """
        return self.place.name_prefix()

    def get_absolute_name_scope_prefix(self) -> str:
        """:return: what names of variables begin with: "" or "outer/" """
        return self.place.scope_prefix()

    def is_inside_rec_layer(self, inside_loop: bool = True) -> bool:
        """
        :param inside_loop: only if this is one frame; otherwise also if it stands for all frames of a loop
        """
        return self.place.time_dim(inside_loop=inside_loop) is not None

    def get_inside_rec_time_dim(self, inside_loop: bool = True) -> Dim | None:
        """:return: the dim of the innermost loop that this network is part of"""
        return self.place.time_dim(inside_loop=inside_loop)

    def get_all_rec_time_dims(self) -> set[Dim]:
        """:return: the dims of all loops that this network is part of"""
        return self.place.all_time_dims()

    def get_control_flow_ctx(self) -> Any:
        """:return: the loop or branch that this network lives in"""
        return self.place.control_flow()

    def get_rec_parent_layer(self, inside_loop: bool = True) -> LayerBase | None:
        """:return: the loop that this network is part of"""
        return self.place.loop_layer(inside_loop=inside_loop)

    def have_rec_step_info(self) -> bool:
        """:return: whether this is one frame of a loop whose number is known"""
        return self.step.info(must_exist=False) is not None

    def get_rec_step_info(self, must_exist: bool = True) -> Any:
        """:return: the layer ":i", with the number of the frame"""
        return self.step.info(must_exist=must_exist)

    def get_rec_step_index(self) -> Any:
        """:return: raw scalar, number of the frame in the loop, from 0 on"""
        return self.step.info().index.raw_tensor

    def set_rec_step_info(
        self,
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
        self.step.make_info(
            i=i, prev_end_flag=prev_end_flag, prev_end_layer=prev_end_layer, seq_lens=seq_lens, offset=offset
        )

    # Other versions.

    @property
    def extra_nets(self) -> dict[str, Any]:
        """Other versions of this network, by name."""
        return self.extra.nets

    @property
    def extra_parent_net(self) -> Any:
        """The network beside which this one stands."""
        return self.extra.base

    def make_extra_net(
        self, prefix_name: str, net_name: str | None = None, only_template: bool = False, boundary: bool = False
    ) -> Any:
        """See `ExtraNets.make`."""
        return self.extra.make(prefix_name, net_name, only_template=only_template, boundary=boundary)

    def construct_extra_net(
        self,
        net_dict: NetDict,
        layer_list: Collection[str],
        search_flag: bool | None = None,
        dep_layers_in_extra: bool = False,
        check_existing: bool = False,
        net_name: str | None = None,
        prefix_name: str | None = None,
        base_get_layer: GetLayer | None = None,
        base_add_layer: Callable[..., LayerBase] | None = None,
    ) -> Any:
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
        net = self.extra.make(prefix, net_name, boundary=dep_layers_in_extra)
        net.search_flag = search_flag
        self.extra.construct(
            net,
            net_dict,
            layer_list,
            check_existing=check_existing,
            get_layer=base_get_layer,
            add_layer=base_add_layer,
        )
        return net

    # Data.

    @property
    def used_data_keys(self) -> set[str]:
        """Keys of the data that the layers use."""
        return self.data.used_keys

    def get_extern_data(self, key: str, mark_data_key_as_used: bool = True) -> Tensor:
        """
        :param key: of the data; "seq_tag" and "seq_idx" are always there
        :param mark_data_key_as_used: so that the dataset has to provide it
        """
        return self.data.get(key, mark_as_used=mark_data_key_as_used)

    def has_value_of_data(self, key: str | None) -> bool:
        """:return: whether the data is there"""
        return self.data.has_value(key)

    def get_used_data_keys(self, exclude_extra_added: bool = True) -> set[str]:
        """:return: keys of the data that the layers use"""
        return self.data.used(exclude_extra_added=exclude_extra_added)

    def get_default_target(self) -> str:
        """:return: key of the target, where none is given"""
        return self.extern_data.default_target

    def get_data_batch_dim(self) -> Any:
        """:return: raw size of the batch"""
        return batch_dim.get_dim_value()

    def get_global_batch_info(self) -> BatchInfo:
        """:return: what the batch axis of the data consists of"""
        info = self.data.root.net.extern_data.get_batch_info()
        assert info is not None
        return info.get_global_base()

    def get_seq_tags(self, mark_data_key_as_used: bool = True, beam: Any = None) -> Any:
        """:return: raw (B,): tags of the sequences"""
        data = self.data.get("seq_tag", mark_as_used=mark_data_key_as_used)
        return data.copy_extend_with_beam(beam).raw_tensor

    # Parameters.

    @property
    def extra_vars_to_save(self) -> list[Any]:
        """Variables that belong to no layer, and go into checkpoints."""
        return self.params.extra_saved

    def get_params_list(self) -> list[Any]:
        """:return: all parameters, each once, in the order of the names of their layers"""
        return self.params.all()

    def get_params_nested_dict(self) -> dict[str, dict[str, Any]]:
        """:return: parameters, by layer and name; layers with others inside have those of all of them"""
        return {name: dict(layer.params) for name, layer in sorted(self.layers.items()) if layer.params}

    def get_saveable_params_list(self) -> list[Any]:
        """:return: all variables that go into checkpoints"""
        return self.params.all_saved()

    def get_trainable_params(self) -> list[Any]:
        """:return: all variables that training changes"""
        return self.params.all_trained()

    def get_auxiliary_params(self) -> list[Any]:
        """:return: parameters which no optimizer changes, such as running averages"""
        return self.params.all_auxiliary()

    def get_num_params(self) -> int:
        """:return: number of values in all parameters"""
        return self.params.num_values()

    def get_param_values_dict(self, session: Any) -> dict[str, dict[str, numpy.ndarray]]:
        """:return: values, by layer and name"""
        return self.params.values_by_layer(session)

    def set_param_values_by_dict(
        self, values_dict: Mapping[str, Any], ignore_non_existing: bool = False, **kwargs: Any
    ) -> None:
        """See `NetworkParams.set_values`."""
        self.params.set_values(values_dict, ignore_non_existing=ignore_non_existing, **kwargs)

    def get_params_serialized(self, session: Any) -> TFNetworkParamsSerialized:
        """:return: values of all parameters, and the number of the step"""
        return TFNetworkParamsSerialized(self.params.values_by_layer(session), self.get_global_train_step(session))

    def set_params_by_serialized(self, serialized: TFNetworkParamsSerialized, session: Any, **kwargs: Any) -> None:
        """
        :param serialized: see `get_params_serialized`, also from another network
        :param session: session to write them in
        :param kwargs: for `set_param_values_by_dict`
        """
        self.params.set_values(serialized.values_dict, session=session, **kwargs)
        self.set_global_train_step(serialized.global_train_step, session=session)

    def declare_train_params(
        self,
        hidden_layer_selection: Collection[str] | None = None,
        with_output: bool | None = None,
        global_trainable: bool | None = None,
    ) -> None:
        """See `NetworkParams.select_trained`."""
        self.params.select_trained(hidden_layer_selection, with_output, global_trainable)

    def get_var_assigner(self, var: Any) -> VariableAssigner:
        """:return: what assigns values to a variable; always the same one"""
        return self.params.assigner_of(var)

    def get_saveable_param_replace_dict(self) -> dict[Any, Any]:
        """:return: for some parameters what is saved instead of them, None for nothing; by `ref()`"""
        return self.params.saved_instead()

    def save_params_to_file(self, filename: str, session: Any) -> None:
        """
        :param filename: of a checkpoint, without suffix
        :param session: session with the values
        """
        self.params.save(filename, session)

    def load_params_from_file(self, filename: str, session: Any) -> None:
        """
        :param filename: of a checkpoint, without suffix
        :param session: session to write the values in
        """
        self.params.load(filename, session)

    def reset_saver(self) -> None:
        """Other variables are to be saved than before."""
        self.params.reset_saver()

    def initialize_params(self, session: Any, *, trained: Collection[str] = ()) -> None:
        """See `NetworkParams.initialize`."""
        _ = self.global_train_step_var  # is made when it is needed, which can be later
        self.params.initialize(session, trained=trained)

    # Losses.

    @property
    def losses_dict(self) -> dict[str, LossHolder]:
        """By name, after `maybe_construct_objective`."""
        return self.losses.by_name

    @property
    def total_loss(self) -> Any:
        """Raw scalar, after `maybe_construct_objective`."""
        return self.losses.total

    @property
    def total_constraints(self) -> Any:
        """Raw scalar, after `maybe_construct_objective`."""
        return self.losses.total_constraints

    @property
    def total_objective(self) -> Any:
        """Raw scalar, after `maybe_construct_objective`."""
        return self.losses.objective

    def wants_loss(self, target: Any, loss_class: Any) -> bool:
        """:return: whether a layer with this loss and target has to compute it"""
        return self.losses.are_wanted(target, loss_class)

    def unknown_targets(self, target: Any) -> list[str]:
        """:return: keys of this option `target` which are neither data nor registered as such by a layer"""
        return self.losses.unknown_targets(target)

    def get_losses_initialized(
        self, reduce_func: Callable[[Any], Any] | None = None, with_total: bool = False
    ) -> tuple[dict[str, LossHolder], Any, Any]:
        """See `NetworkLosses.initialized`."""
        return self.losses.initialized(reduce_func, with_total)

    def get_constraints(self) -> Any:
        """:return: raw scalar: the sum of all constraints on parameters and outputs, of all layers"""
        return self.losses.constraints()

    def maybe_construct_objective(self) -> None:
        """Computes losses and totals, once."""
        self.losses.compute()

    def get_objective(self) -> Any:
        """:return: raw scalar, what training minimizes"""
        self.losses.compute()
        return self.losses.objective

    def get_total_loss(self) -> Any:
        """:return: raw scalar, total of all losses"""
        self.losses.compute()
        return self.losses.total

    def get_total_constraints(self) -> Any:
        """:return: raw scalar, total of all constraints"""
        self.losses.compute()
        return self.losses.total_constraints

    def get_fetches_dict(
        self,
        config: Any = None,
        should_train: bool | None = None,
        should_eval: bool | None = None,
        with_summary: bool = False,
        with_size: bool = False,
        horovod_collected_reduce_inputs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """
        What a step of a session computes, beside what is fetched for its own sake.

        :param config: default: that of the network
        :param should_train: losses and the objective
        :param should_eval: losses and errors
        :param with_summary: all summaries for TensorBoard
        :param with_size: lengths of all data
        :param horovod_collected_reduce_inputs: is filled: losses and norm factors, which workers sum up
        :return: raw tensors by name: `size:data:0`, `loss`, `constraints`, `cost:NAME`, `error:NAME`, ...
        """
        return self.losses.fetches(
            with_losses=bool(should_train or should_eval),
            with_summary=with_summary,
            with_size=with_size,
            summed_by_workers=horovod_collected_reduce_inputs,
        )

    @staticmethod
    def spatial_smoothing_energy(output: Any) -> Any:
        """:return: raw scalar, see `returnn.tf.util.parameters.regularization.spatial_smoothing_energy`"""
        return spatial_smoothing_of_output(output)

    # Runs.

    @staticmethod
    def register_post_control_dependencies(deps: Sequence[tf.Operation | tf.Tensor]) -> None:
        """
        :param deps: operations which run at the end of each training step
        """
        add_post_step_operations(deps)

    @staticmethod
    def get_post_control_dependencies() -> list[tf.Operation]:
        """:return: operations which run at the end of each training step"""
        return post_step_operations()

    def register_run_finished_callback(self, cb: Callable[..., None]) -> None:
        """
        :param cb: called with `error_occurred=` when an epoch of training, evaluation or forwarding is over
        """
        self.run.finished_callbacks.append(cb)

    def set_run_finished(self, error_occurred: bool = False) -> None:
        """
        Called when an epoch of training, evaluation or forwarding is over.

        :param error_occurred: whether it did not get to its end
        """
        self.run.finish(error_occurred=error_occurred)

    def set_run_opts(self, epoch: int, dataset_name: str) -> None:
        """
        :param epoch: number of the epoch
        :param dataset_name: such as "dev"
        """
        self.run.options = {"epoch": epoch, "dataset_name": dataset_name}

    def get_run_opts(self) -> dict[str, Any]:
        """:return: what `set_run_opts` got"""
        return self.run.options

    def register_graph_reset_callback(self, cb: Callable[[], None]) -> None:
        """
        :param cb: called when the graph is not used any more
        """
        self.run.graph_reset_callbacks.append(cb)

    def get_graph_reset_callbacks(self) -> list[Callable[[], None]]:
        """:return: what `register_graph_reset_callback` got"""
        return self.run.graph_reset_callbacks

    def call_graph_reset_callbacks(self) -> None:
        """Called when the graph is not used any more."""
        self.run.reset_graph()

    @property
    def global_train_step_var(self) -> tf.Variable:
        """Number of the training step, from 0 on, over all epochs: int64. It goes into checkpoints."""
        return self.run.train_step_var(self.params.root.extra_saved)

    @property
    def global_train_step(self) -> tf.Tensor:
        """Number of the training step, as value."""
        return self.params.value_of(self.global_train_step_var)

    def get_global_train_step(self, session: tf.compat.v1.Session) -> int:
        """:return: number of the training step"""
        return int(session.run(self.global_train_step_var))

    def set_global_train_step(self, step: int, session: tf.compat.v1.Session) -> None:
        """
        :param step: number of the training step
        :param session: session to write it in
        """
        self.global_train_step_var.load(step, session)

    @property
    def epoch_step(self) -> tf.Tensor | None:
        """What `get_epoch_step` gave."""
        return self.run.epoch_step

    def get_epoch_step(self) -> tf.Tensor:
        """:return: int64 scalar: number of the step in this epoch, which is fed; -1 if it is not"""
        return self.run.get_epoch_step()
