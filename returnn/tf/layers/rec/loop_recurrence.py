"""A recurrence by a subnetwork: the loop over it, and what the outside can ask of the layers of its time step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.log import log
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level import side_effects
from returnn.tf.frontend_low_level.kernels.native import has_operations
from returnn.tf.layers.core.frames_of_target import check_of_lengths
from returnn.tf.layers.core.inner_losses import InnerLosses
from returnn.tf.layers.core.inner_totals import InnerTotals
from returnn.tf.layers.core.layer_base import LayerBase, WrappedInternalLayer
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.regularization import is_counted_by_frames
from returnn.tf.layers.core.step_state import FramesNotKept
from returnn.tf.layers.loop.across_batches.step_offset import StepOffset
from returnn.tf.layers.loop.compile import CompiledLoop, compile_loop
from returnn.tf.layers.loop.emit import EmittedLoop, emit
from returnn.tf.layers.loop.final_state import KeptFrames, LayerBehindLoop, TemplateBehindLoop
from returnn.tf.layers.loop.inputs import LoopInputs, reverse_frames
from returnn.tf.layers.loop.kept_frames import choose_kept
from returnn.tf.layers.rec.frames_of_loop import (
    check_limit,
    evaluate_limit,
    find_targets_of_frames,
    find_time_dim_without_source,
)
from returnn.tf.layers.rec.recurrent_layer import RecurrentLayer
from returnn.tf.layers.search.dims_of_hypotheses import beam_of_lengths
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.tf.layers.search.sums_before import with_sums_computed_again
from returnn.util.errors import ConfigError, nearest_hint


@dataclass(frozen=True)
class LoopOptions:
    """How a layer loops over a subnetwork. The options are those of `RecLayer`."""

    unit: dict[str, Any]
    find_time_dim: Callable[[Tensor], Dim | None]  # which dim of the source to go over
    axis: Dim | None = None  # the dim to go over, as the config says it
    backward: bool = False
    max_seq_len: Any = None
    max_seq_len_via: LayerBase | None = None
    optimize: bool | None = None
    unroll: bool = False
    back_prop: bool | None = None
    counts_on: bool = False  # steps go on from the batch before
    include_eos: bool = False
    debug: bool = False


class LoopRecurrence:
    """
    A loop over a subnetwork. See `Recurrence`.

    `compiled` is there as soon as dims are inferred, `emitted` when the loop is in the graph.
    """

    needs_source = False

    def __init__(self, layer: RecurrentLayer, options: LoopOptions) -> None:
        """
        :param layer: whose network is the one around the loop
        :param options: how it loops
        """
        self.layer = layer
        self.options = options
        self.compiled: CompiledLoop | None = None
        self.emitted: EmittedLoop | None = None
        self._losses_of_frame = InnerLosses({"unit": options.unit}, layer.batch_of_frame())  # in a loop around
        self._totals_of_frame = InnerTotals(layer)  # the same

    def compute(self, source: Tensor | None) -> Tensor:
        """:return: output of the loop over the subnetwork"""
        has_values = get_selected_backend() != "template"
        offset = StepOffset(self.layer) if self.options.counts_on and has_values else None
        inputs = self._inputs(source, offset)
        self.compiled = self._compile_for_graph(inputs) if has_values else compile_loop(inputs)
        if not has_values:
            self.compiled.declare_lengths()
            output = self._with_out_dim(self.compiled.output_template())
            self._losses_of_frame.declare(self.layer, output)
            self._declare_totals()
            return output
        if self.layer.network.get_config().options.debug_rec_layer:
            print(self.compiled.plan, file=log.v1)
        self.emitted = emit(self.compiled)
        self.compiled = self.emitted.compiled
        inputs = self.compiled.inputs
        if self.emitted.beam is not None:
            self.layer.search_choices = SearchChoices(self.layer, self.emitted.beam.dim.dimension or 0)
            self.layer.search_choices.set_beam(self.emitted.beam)
        if offset is not None:
            offset.count(inputs.time_dim.get_dim_value())
        if inputs.has_known_length and not self.layer.network.search_flag:
            self._check_lengths_of_targets(inputs)
        output = self._with_out_dim(_time_beside_batch(inputs.in_order(self.emitted.output), inputs.time_dim))
        output = output.copy_with_roles(time_dim=inputs.time_dim)
        self._give_losses_to_loop_around(output)
        self._give_totals()
        return output

    def _compile_for_graph(self, inputs: LoopInputs) -> CompiledLoop:
        network = self.layer.network
        if network.search_flag and not inputs.back_prop:
            unit = with_sums_computed_again(inputs.unit)
            if unit is not inputs.unit and has_operations(network.float_dtype):
                with contextlib.suppress(ConfigError):  # errors are about the layers that the user knows
                    return compile_loop(replace(inputs, unit=unit))
        return compile_loop(inputs)

    def _give_losses_to_loop_around(self, output: Tensor) -> None:
        losses = self._losses_of_frame
        if losses.has_any and losses.batch is not None:
            get_losses = partial(self.get_losses, None)
            losses.take(self.layer, output, losses.computed("unit", self.layer, get_losses, self.get_constraints_value))

    def _declare_totals(self) -> None:
        """Says what layers of the time step keep for after a loop around."""
        assert self.compiled is not None
        if self.layer.is_inside():
            for path, states in self.compiled.inferred.states.items():
                layer = self.compiled.inferred.layers[path]
                names = self._totals_of_frame.of_layer(layer, path, states)
                self._totals_of_frame.keep({name: states[key].template for key, name in names.items()})

    def _give_totals(self) -> None:
        """Gives layers of the time step what they kept of all frames; in a loop around, this keeps it first."""
        assert self.compiled is not None
        assert self.emitted is not None
        inside, totals = self.emitted.inside, self._totals_of_frame
        found: dict[str, Tensor] = {}
        for path, states in self.compiled.inferred.states.items():
            if path in self.emitted.totals:
                assert inside is not None
                names = totals.of_layer(inside.layers[path], path, states)
                found.update((names[key], total) for key, total in self.emitted.totals[path].items())
            else:
                frames = (self.emitted.before, self.emitted.after)  # moved out of this loop, not of the one around
                layers = [frame.layers[path] for frame in frames if path in frame.layers]
                for layer in dict.fromkeys(layers):
                    found.update(totals.taken_from(layer, path))
        if self.layer.is_inside():
            totals.keep(totals.completed(found))
        else:
            totals.hand_on(found)

    def _inputs(self, source: Tensor | None, offset: StepOffset | None) -> LoopInputs:
        layer, options = self.layer, self.options
        time_dim, has_known_length = self._time_dim(source)
        if not has_known_length and options.max_seq_len_via is None:
            check_limit(layer, options.max_seq_len)
        if options.backward and not has_known_length:
            raise ConfigError(
                f"{layer.where()}: direction -1: the loop has to know its length, but a layer 'end' decides about it."
            )
        if source is not None and options.backward:
            source = reverse_frames(source, time_dim)
        optimize = options.optimize
        if optimize is None:
            optimize = layer.network.get_config().options.optimize_move_layers_out
        return LoopInputs(
            layer=layer,
            unit=options.unit,
            unit_of_config=options.unit,
            name_scope=layer.scope_of_unit(),
            source=source,
            time_dim=time_dim,
            has_known_length=has_known_length,
            targets_of_frames=find_targets_of_frames(layer, options.unit) if has_known_length else frozenset(),
            first_step=None if offset is None else offset.number,
            optimize=optimize,
            include_eos=options.include_eos,
            max_seq_len=lambda beam: evaluate_limit(layer, options.max_seq_len, options.max_seq_len_via, beam),
            unroll=options.unroll,
            back_prop=layer.network.is_training_objective if options.back_prop is None else options.back_prop,
            backward=options.backward,
            debug=options.debug,
        )

    def _time_dim(self, source: Tensor | None) -> tuple[Dim, bool]:
        """:return: the dim to go over; whether its lengths are known before"""
        if source is None:
            return find_time_dim_without_source(self.layer, self.options.unit, self.options.axis)
        dim = self.options.find_time_dim(source)
        if dim is None:
            raise ConfigError(f"{self.layer.where()}: the source {source} has no time dim to go over.")
        return dim, True

    def _with_out_dim(self, output: Tensor) -> Tensor:
        """:return: the output; if `out_dim` is another dim than the one inside, but of the same size, with that"""
        inner, given = output.feature_dim_or_sparse_dim, self.layer._out_dim
        if given is None or inner is None or given in (inner, *output.dims) or given.size != inner.size:
            return output
        if inner in output.dims:
            return rf.replace_dim(output, in_dim=inner, out_dim=given)[0]
        return output.copy_with_roles(sparse_dim=given)

    def _check_lengths_of_targets(self, inputs: LoopInputs) -> None:
        layer, root = self.layer, self.layer.network.get_root_network()
        for key in sorted(inputs.targets_of_frames & root.used_data_keys):
            has_data = root.extern_data.has_data(key)
            own = inputs.own_dim_of_target(key, root.extern_data.data[key]) if has_data else None
            if own is not None and own.dyn_size is not None:  # a graph for inputs alone has no targets
                frames_of = "source" if layer.sources else "loop"
                side_effects.add_effect(
                    check_of_lengths(own, inputs.time_dim, where=layer.where(), target=key, frames_of=frames_of)
                )

    # What the outside can ask for.

    def has_hidden_state(self) -> bool:
        """:return: whether the layer "output" has one"""
        output = self.get_sub_layer("output")
        return output is not None and output.has_hidden_state()

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """
        :return: hidden state of the layer "output" after the last frame, by name
        :raises ConfigError: if it has none, or it was not kept
        """
        output = self.get_sub_layer("output")
        if output is None:
            raise ConfigError(f"{self.layer.where()}: has no hidden state.")
        return output.hidden_state_parts()

    def last_hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: the same"""
        return self.hidden_state_parts()

    def get_sub_layer(self, name: str) -> LayerBase | None:
        """:return: layer of the time step, for all frames"""
        compiled, emitted = self.compiled, self.emitted
        if compiled is None:
            return None
        if get_selected_backend() == "template" or emitted is None:
            return self._sub_layer_template(compiled, name)
        if name in compiled.plan.placements and not emitted.is_kept(name):
            raise self._not_kept(name, None if emitted.inside is None else emitted.inside.layers.get(name))
        unit = self.options.unit
        if name.partition("/")[0] not in unit:
            hint = nearest_hint(name, unit)
            raise ConfigError(f"{self.layer.where()}: there is no layer {name!r} in the unit.\n  {hint}")
        layer = emitted.layer(name)
        output = compiled.inputs.in_order(layer.output)
        owner_path = compiled.step.owner_of_state(name)
        owner = emitted.layer(owner_path) if emitted.is_kept(owner_path) else layer
        if owner.has_hidden_state() and isinstance(owner, (KeptFrames, RecurrentLayer)):
            return LayerBehindLoop(name=name, network=layer.network, output=output, base_layer=owner)
        if output is layer.output:
            return layer
        return WrappedInternalLayer(name=name, network=layer.network, output=output, base_layer=layer)

    def _not_kept(self, name: str, layer: LayerBase | None) -> FramesNotKept:
        return FramesNotKept(
            f"{self.layer.where()}: the frames of {name!r} are not kept.\n"
            f"  Give that layer the option 'is_output_layer': True.",
            layer=layer,
        )

    def _sub_layer_template(self, compiled: CompiledLoop, name: str) -> LayerBase | None:
        if name not in compiled.inferred.layers:
            return None
        if name in compiled.plan.at("inside") and name not in choose_kept(compiled).layers:
            raise self._not_kept(name, compiled.inferred.layers[name])
        return TemplateBehindLoop(
            name=f"{self.layer.name}/{name}",
            network=self.layer.network,
            output=compiled.frames_template(name),
            states=compiled.hidden_state_templates(name),
        )

    def get_sub_networks(self) -> list[Network]:
        """:return: the networks before, inside, and after the loop"""
        return [] if self.emitted is None else self.emitted.networks

    def get_sub_layers(self) -> list[LayerBase]:
        """:return: the layers of the time step which are known for all frames, each once"""
        if self.emitted is None:
            return []
        before, after = self.emitted.before.network, self.emitted.after.network
        found: dict[int, LayerBase] = {}
        for network in (before, after):
            for name, layer in network.layers.items():
                if not name.startswith(("data", ":i", "prev:")) and "/" not in name:
                    found.setdefault(id(layer), layer)
        in_subnetworks = [layer for path, layer in self.emitted.after.known.items() if "/" in path]
        return [*found.values(), *(layer for layer in in_subnetworks if isinstance(layer, KeptFrames))]

    def get_base_layers(self) -> list[LayerBase]:
        """:return: layers around the loop that the time step uses as "base:..." """
        if self.compiled is None:
            return []
        network = self.layer.network
        prefix = network.get_absolute_name_prefix()
        names = {
            edge.path.removeprefix(prefix): None
            for edges in self.compiled.inferred.edges.values()
            for edge in edges
            if edge.kind == "base" and edge.path.startswith(prefix)
        }
        return [network.layers[name] for name in names if name in network.layers]

    # Losses and constraints of the layers of the time step.

    def get_losses(self, reduce_func: Callable[[Any], Any] | None) -> list[Any]:
        """
        :return: losses of the layers of the time step, named by their path; in search without those that would compare
            frames of hypotheses with the target, if there is no frame of it that belongs to them
        """
        losses: list[Any] = []
        for layer in self.get_sub_layers():
            if self._has_frames_of_target(layer):
                losses += layer.get_losses_initialized(reduce_func=reduce_func)
        inside = self._totals_of_frame.losses()
        if inside and reduce_func is not None:
            raise ConfigError(f"{self.layer.where()}: of {inside[0].name!r}, only the sum over all frames is known.")
        known = {id(loss.get_layer()) for loss in [*losses, *inside]}
        for loss in self._losses_of_moved_subnetworks(reduce_func):
            if id(loss.get_layer()) not in known:
                known.add(id(loss.get_layer()))
                losses.append(loss)
        for loss in losses:
            loss.name = f"{self.layer.name}/{loss.name}"
        return [*losses, *inside]

    def _losses_of_moved_subnetworks(self, reduce_func: Callable[[Any], Any] | None) -> list[Any]:
        """:return: of layers in subnetworks which are not, as a whole, where these layers are"""
        if self.emitted is None:
            return []
        found = []
        for network in (self.emitted.before.network, self.emitted.after.network):
            for name, inner in network.subnets_without_layer().items():
                for loss in inner.get_losses_initialized(reduce_func=reduce_func)[0].values():
                    loss.name = f"{name}/{loss.name}"
                    found.append(loss)
        return found

    def _has_frames_of_target(self, layer: LayerBase) -> bool:
        """:return: whether the target has all frames that the loss of a layer of the time step is about"""
        loss = layer.loss
        if loss is None or loss.recurrent or not loss.need_target:
            return True
        assert self.compiled is not None
        inputs = self.compiled.inputs
        targets = [layer._target_layers.get(key) for key in layer.targets or ()]
        inside = [x for x in targets if x is not None and x.get_absolute_name().startswith(inputs.prefix)]
        if len(inside) == len(targets) and not any(_more_sequences(x.output, layer.output) for x in inside):
            return True
        if inputs.has_known_length:
            return beam_of_lengths(inputs.time_dim) is None or None not in targets
        return self.compiled.inferred.beam is None and not self.layer.network.beams.has_hypotheses(layer.output)

    def get_constraints_value(self) -> Any:
        """:return: raw scalar, for the layers of the time step"""
        total = sum(layer.get_constraints_value() for layer in self.get_sub_layers())
        if self.emitted is None or self.emitted.inside is None:
            return total
        for layer in self.emitted.inside.network.get_all_layers_deep():
            if layer.L2 and layer.params and not is_counted_by_frames(layer):
                total += layer.L2 * layer.get_params_l2_norm()
        return total + self._totals_of_frame.constraints()

    def losses_after_loop(self) -> list[Any]:
        """:return: losses of the layers of the time step, behind the loops around"""
        return [*self._losses_of_frame.of_all_frames(self.layer), *self._totals_of_frame.losses()]

    def constraints_after_loop(self) -> Any:
        """:return: raw scalar, for the layers of the time step, behind the loops around"""
        return self._totals_of_frame.constraints()

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """Gives layers of the time step what they kept in all frames of the loops around."""
        self._totals_of_frame.hand_on(self._losses_of_frame.set_totals(totals))


def _more_sequences(target: Tensor, output: Tensor) -> bool:
    """:return: whether a target has a whole sequence where the output has a frame"""
    return any(dim.is_dynamic_seq_length() and dim not in output.dims for dim in target.dims)


def _time_beside_batch(output: Tensor, time_dim: Dim) -> Tensor:
    """
    Code that sees raw values expects frames and sequences on the first two axes. What is computed for all frames at
    once, such as a product of matrices, may have the frames elsewhere.
    """
    if time_dim not in output.dims or output.dims.index(time_dim) < 2 or output.raw_tensor is None:
        return output
    return output.copy_transpose([time_dim, *(dim for dim in output.dims if dim is not time_dim and dim != time_dim)])
