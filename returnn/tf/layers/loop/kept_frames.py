"""What is kept of all frames of a loop, as somebody outside needs it: outputs of layers, and their hidden states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.step_state import ForAfterLoop
from returnn.tf.layers.loop.across_batches.kept_state import KeptInitial, is_word
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.dims_of_frames import growing_dims
from returnn.tf.layers.loop.final_state import KeptFrames, last_frame
from returnn.tf.layers.loop.history import NoFrames
from returnn.tf.layers.loop.prev_layer import hidden_state_names
from returnn.tf.util.activations import OutputWithActivation
from returnn.util.errors import ConfigError

_TAKEN_OVER = (
    "loss",
    "target",
    "targets",
    "_target_layers",
    "only_on_eval",
    "_is_output_layer",
    "updater_opts",
)

StackFrames = Callable[[Any, Tensor], Tensor]  # of an array of frames (T, ...) and the template of one: [T, ...]


@dataclass(frozen=True)
class KeptLayer:
    """A layer inside of the loop of which all frames are needed outside."""

    path: str
    layer: LayerBase = field(repr=False)  # template
    template: Tensor  # of what is kept, with the beam of the last choice
    is_before_activation: bool  # it is the input of the activation function, as losses need it

    def value_of_frame(self, layer: LayerBase) -> Tensor:
        """
        :param layer: in a frame
        :return: what is kept of it
        """
        return layer.output_before_activation.before if self.is_before_activation else layer.output


@dataclass(frozen=True)
class Kept:
    """All that is kept of all frames."""

    layers: Mapping[str, KeptLayer]  # by path
    states: Mapping[str, Mapping[str, Tensor]]  # templates of parts of hidden states, by path and name
    growing: Sequence[Dim]  # dims that have one more entry in each step. Frames are as long as the last one


def choose_kept(compiled: CompiledLoop) -> Kept:
    """:return: what has to be known of all frames"""
    inferred, inside = compiled.inferred, compiled.plan.at("inside")
    used = _find_used(compiled)
    layers = {}
    for path in inside:
        layer = inferred.layers[path]
        is_wanted = path in compiled.graph.wanted and not (path == "end" and not layer.is_output_layer())
        goes_on = path in inferred.prev and is_word(layer._initial_output)
        if is_wanted or goes_on or path in used:
            act = layer.output_before_activation
            is_before = act is not None and act.before is not None
            template = act.before if is_before else layer.output
            layers[path] = KeptLayer(path, layer, _template_to_keep(compiled, template), is_before)
    states = {path: _choose_states(compiled, path) for path in inside if inferred.states.get(path)}
    growing = growing_dims(inferred.states)
    if not compiled.inputs.has_known_length:
        for path, kept in layers.items():
            _check_same_size(compiled.inputs.prefix + path, kept.template, growing)
    return Kept(layers, {path: parts for path, parts in states.items() if parts}, growing)


def _check_same_size(name: str, template: Tensor, growing: Sequence[Dim]) -> None:
    found = next((dim for dim in template.dims if dim in growing), None)
    if found is not None:
        raise ConfigError(
            f"layer {name!r}: has {found}, which grows in each step, so its frames are not known outside of a loop\n"
            "  whose layer 'end' decides about its length. Reduce this dim in the loop."
        )


def _find_used(compiled: CompiledLoop) -> set[str]:
    """:return: paths of layers inside of the loop that others use after it: as source, or as target of their loss"""
    used = {
        edge.path
        for path in compiled.plan.at("after")
        for edge in compiled.inferred.edges.get(path, ())
        if edge.kind in ("same", "prev")
    }
    prefix = compiled.inputs.prefix
    for path in compiled.plan.at("inside"):
        layer = compiled.inferred.layers[path]
        targets = layer._target_layers.values() if layer.loss is not None else ()
        names = (target.get_absolute_name() for target in targets)
        used |= {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    return used


def _choose_states(compiled: CompiledLoop, path: str) -> dict[str, Tensor]:
    """:return: templates of the parts of the hidden state which have to be known of all frames, by name"""
    states = compiled.inferred.states[path]
    names = hidden_state_names(compiled.step, path, states)
    is_asked_for = path in compiled.step.asked_for_states
    return {
        key: _template_to_keep(compiled, state.template)
        for key, state in states.items()
        if (is_asked_for and key in names) or isinstance(state.initial, (KeptInitial, ForAfterLoop))
    }


def _template_to_keep(compiled: CompiledLoop, template: Tensor) -> Tensor:
    """:return: template, with the beam of the last choice behind the batch: so frames are (T, B, K, ...)"""
    template = compiled.inputs.seen_from_outside(template)
    beam = compiled.inferred.beam
    beams = compiled.inputs.layer.network.beams
    own = beams.of(template)
    if beam is None or own is None or own.is_kept:
        return template.copy_template()
    template = beams.renamed(template, beam.dim)
    batch = [dim for dim in template.dims if dim.is_batch_dim()]
    order = [*batch, beam.dim]
    return template.copy_template().copy_transpose([*order, *(d for d in template.dims if d not in order)])


def with_size_of_last(raw: Any, template: Tensor, growing: Sequence[Dim], num_frames: Any) -> Any:
    """
    :param raw: of a frame
    :param template: of that
    :param growing: dims that have one more entry in each step
    :param num_frames: of the loop
    :return: raw, with zeros where later frames have more
    """
    if not any(dim in growing for dim in template.dims):
        return raw
    sizes = tf.shape(raw)
    missing = [num_frames - sizes[axis] if dim in growing else 0 for axis, dim in enumerate(template.dims)]
    return tf.pad(raw, [[0, size] for size in missing])


def raw_to_keep(compiled: CompiledLoop, x: Tensor, template: Tensor) -> Any:
    """
    :param x: of a frame
    :param template: of what is kept of it
    :return: raw (B, K, ...), as the template says: x for the hypotheses after the last choice of the step
    """
    x = compiled.inputs.seen_from_outside(x)
    beam, beams = compiled.inferred.beam, compiled.inputs.layer.network.beams
    if beam is not None:
        x = beams.translate(x, beams.get(beam.dim))
    return rf.expand_to(x, template.dims).copy_compatible_to_dims_raw(template.dims)


def finish_states(
    compiled: CompiledLoop,
    kept: Kept,
    arrays: Mapping[str, Mapping[str, Any]],
    stack_frames: StackFrames,
    initial: Mapping[str, Mapping[str, Tensor]],
) -> dict[str, dict[str, Tensor]]:
    """
    :param compiled: the loop
    :param kept: what is kept
    :param arrays: the frames, like `kept.states`
    :param stack_frames: function that makes tensors of arrays
    :param initial: all states before the first frame
    :return: hidden states of all frames, as far as they are kept; those for the next batch are updated
    """
    states = {
        path: {key: stack_frames(array, kept.states[path][key]) for key, array in parts.items()}
        for path, parts in arrays.items()
    }
    for path, parts in states.items():
        for key, frames in parts.items():
            value = compiled.inferred.states[path][key].initial
            if isinstance(value, KeptInitial):
                beams = compiled.inputs.layer.network.beams
                value.keep(last_frame(frames, compiled.inputs.time_dim, initial[path][key], beams))
    return states


def take_totals(compiled: CompiledLoop, states: dict[str, dict[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
    """
    :param compiled: the loop
    :param states: what is kept, by path and name. Those are taken out which are no states
    :return: these, summed up over the frames (`LayerRec.after_loop`), by path and name
    """
    found = {}
    for path, parts in states.items():
        templates = compiled.inferred.states[path]
        taken = {key: parts.pop(key) for key in list(parts) if isinstance(templates[key].initial, ForAfterLoop)}
        if taken:
            found[path] = {key: _total_of_frames(x, compiled.inputs.time_dim) for key, x in taken.items()}
    return found


def _total_of_frames(x: Tensor, time_dim: Dim) -> Tensor:
    """
    :param x: {time_dim, B, ...}
    :param time_dim: of the loop
    :return: {B, ...}: sum over the frames that belong to a sequence. What is computed beyond its end may be infinite
    """
    lengths = time_dim.get_size_tensor()
    for dim in [dim for dim in lengths.dims if dim not in x.dims]:  # hypotheses: as long as the longest one
        lengths = rf.reduce_max(lengths, axis=dim)
    mask = rf.compare_bc(rf.range_over_dim(time_dim), "<", lengths)
    valid = rf.where(mask, x, 0.0, allow_broadcast_all_sources=True).copy_transpose(x.dims)
    return rf.reduce_sum(valid, axis=time_dim, use_mask=False)


def give_all_frames(compiled: CompiledLoop, states: Mapping[str, Mapping[str, Any]]) -> None:
    """
    Hands the frames which a layer collected in its state to whom they concern after the loop.

    :param compiled: the loop
    :param states: raw: after the last frame, by path and name
    """
    time_dim = compiled.inputs.time_dim
    for path, parts in states.items():
        for key, raw in parts.items():
            initial = compiled.inferred.states[path][key].initial
            if isinstance(initial, NoFrames) and initial.after_loop is not None:
                axis = initial.template.get_axis_from_description(initial.axis)
                frames = initial.template.copy_template_replace_dim_tag(axis, time_dim)
                frames.raw_tensor = raw
                initial.after_loop(frames, time_dim)


def as_layer(
    kept: KeptLayer,
    frames: Tensor,
    network: Network,
    *,
    states: Mapping[str, Tensor],
    initial: Mapping[str, Tensor],
    step_layer: LayerBase,
) -> LayerBase:
    """
    :param kept: what is kept of a layer
    :param frames: [T, ...], of that
    :param network: for the result
    :param states: [T, ..., F], parts of the hidden state, as far as they are kept, too
    :param initial: the same before the first frame, [..., F]
    :param step_layer: the layer in a frame of the loop
    :return: layer that stands for all frames of a layer inside of the loop, with its loss
    """
    act = None
    if kept.is_before_activation:
        old = kept.layer.output_before_activation
        act = OutputWithActivation(frames, old.act_func, old.act_func_opts)
        frames = act.after
    frames.version = 1
    layer = KeptFrames(
        name=kept.path,
        network=network,
        output=frames,
        debug_type_name="all frames",
        time_dim=frames.dims[0],
        states=dict(states),
        initial=dict(initial),
    )
    for name in _TAKEN_OVER:
        setattr(layer, name, getattr(kept.layer, name))
    layer.own_params = dict(step_layer.params)  # for those who share them
    layer.final_state = step_layer.final_state
    layer.output_before_activation = act
    layer.kwargs = {"only_on_eval": kept.layer.only_on_eval}
    return layer
