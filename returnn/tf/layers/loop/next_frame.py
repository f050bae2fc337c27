"""From one frame of a loop to the next: the variables before the first frame, and after each."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.frames import SequenceFrame, StepFrame
from returnn.tf.layers.loop.initial import InitialOutput, initial_value
from returnn.tf.layers.loop.kept_frames import KeptLayer, raw_to_keep, with_size_of_last
from returnn.tf.layers.loop.loop_variables import LoopLayout, LoopVariables
from returnn.tf.layers.loop.time_axis import new_array
from returnn.tf.layers.search.beam import as_beam_of_frame_before

States = Mapping[str, Mapping[str, Tensor]]  # by path of the layer and name


def make_initial_states(layout: LoopLayout, before: SequenceFrame) -> States:
    """:return: the states before the first frame"""
    return {path: _make_initial_states_of(path, layout.compiled, before) for path in layout.states}


def _make_initial_states_of(path: str, compiled: CompiledLoop, before: SequenceFrame) -> dict[str, Tensor]:
    layer = before.layer_for_parameters(path)
    values = {}
    for key, state in compiled.inferred.states[path].items():
        if isinstance(state.initial, InitialOutput):
            values[key] = before.initial_output(path, state.template)
        else:
            values[key] = initial_value(state.initial, state.template, layer=layer, get_layer=before.get_layer)
    return values


def make_initial_variables(layout: LoopLayout, before: SequenceFrame, states: States) -> LoopVariables:
    """
    :param layout: dims of the variables
    :param before: what is computed before the loop
    :param states: before the first frame
    """
    size = layout.length.size_of_arrays
    ended = lengths = scores = src_beams = None
    if layout.compiled.step.has_end:
        ended = rf.full(dims=layout.hypotheses, fill_value=False, dtype="bool").raw_tensor
        ended = _or_at_limit(layout, ended, 0)
        lengths = rf.full(dims=layout.hypotheses, fill_value=0, dtype="int32").raw_tensor
    prev_beam = layout.compiled.inferred.prev_beam
    if prev_beam is not None:
        # There is one hypothesis, in the first place; the others cannot be continued.
        is_first = rf.compare(rf.range_over_dim(prev_beam), "==", 0)
        scores = _raw(rf.cast(rf.where(is_first, 0.0, float("-inf")), "float32"), layout.hypotheses)
        src_beams = new_array(Tensor("src_beams", dims=layout.hypotheses, dtype="int32"), size)
    return LoopVariables(
        i=tf.constant(0, dtype=tf.int32),
        prev={path: _raw(before.initial_output(path), template.dims) for path, template in layout.prev.items()},
        states={
            path: {key: states[path][key].copy_compatible_to_dims_raw(x.dims) for key, x in templates.items()}
            for path, templates in layout.states.items()
        },
        kept={path: new_array(kept.template, size) for path, kept in layout.kept.layers.items()},
        kept_states={
            path: {key: new_array(template, size) for key, template in templates.items()}
            for path, templates in layout.kept.states.items()
        },
        ended=ended,
        lengths=lengths,
        scores=scores,
        src_beams=src_beams,
    )


def make_next_variables(layout: LoopLayout, frame: StepFrame, variables: LoopVariables) -> LoopVariables:
    """
    :param layout: dims of the variables
    :param frame: of which all layers are made
    :param variables: before this frame
    :return: after it
    """
    compiled, i, layers = layout.compiled, variables.i, frame.layers
    with tf.control_dependencies(_print_outputs(compiled, frame) if compiled.inputs.debug else []):
        next_i = i + 1
    ended, lengths = _next_ends(layout, frame, variables)
    scores, src_beams = _next_beam(layout, frame, variables)
    return LoopVariables(
        i=next_i,
        prev={
            path: _raw(_after_choices(compiled, layers[path].output), template.dims)
            for path, template in layout.prev.items()
        },
        states={
            path: {
                key: _raw(_after_choices(compiled, layers[path].new_states[key]), template.dims)
                for key, template in templates.items()
            }
            for path, templates in layout.states.items()
        },
        kept={
            path: variables.kept[path].write(i, _frame_to_keep(layout, kept, layers[path]))
            for path, kept in layout.kept.layers.items()
        },
        kept_states={
            path: {
                key: variables.kept_states[path][key].write(
                    i, raw_to_keep(compiled, layers[path].new_states[key], template)
                )
                for key, template in templates.items()
            }
            for path, templates in layout.kept.states.items()
        },
        ended=ended,
        lengths=lengths,
        scores=scores,
        src_beams=src_beams,
    )


def _frame_to_keep(layout: LoopLayout, kept: KeptLayer, layer: LayerBase) -> tf.Tensor:
    """:return: raw (B, K, ...)"""
    raw = raw_to_keep(layout.compiled, kept.value_of_frame(layer), kept.template)
    return with_size_of_last(raw, kept.template, layout.kept.growing, layout.length.most)


def _next_ends(
    layout: LoopLayout, frame: StepFrame, variables: LoopVariables
) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """:return: raw (B, K): whether a sequence has ended, bool; how many frames it has so far, int32"""
    if variables.ended is None or variables.lengths is None:
        return None, None
    compiled = layout.compiled
    end = _raw(_after_choices(compiled, frame.layers["end"].output), layout.hypotheses)
    before = _of_continued(layout, variables.ended)
    lengths = _of_continued(layout, variables.lengths)
    ended = tf.logical_or(before, end)
    is_over = before if compiled.inputs.include_eos else ended
    lengths += tf.cast(tf.logical_not(is_over), tf.int32)
    return _or_at_limit(layout, ended, variables.i + 1), lengths


def _next_beam(
    layout: LoopLayout, frame: StepFrame, variables: LoopVariables
) -> tuple[tf.Tensor | None, tf.TensorArray | None]:
    """:return: raw (B, K): scores of the hypotheses after this frame; array of which ones they continue"""
    inferred, beams = layout.compiled.inferred, layout.compiled.inputs.layer.network.beams
    if inferred.beam is None or variables.src_beams is None:
        return None, None
    beam = beams.get(inferred.beam.dim)
    source = beams.source_indices(beam, inferred.prev_beam)
    batch_major = [*layout.hypotheses[:-1], beam.dim]
    src_beams = variables.src_beams.write(variables.i, source.copy_compatible_to_dims_raw(batch_major))
    return beam.scores.copy_compatible_to_dims_raw(batch_major), src_beams


def _or_at_limit(layout: LoopLayout, ended: tf.Tensor, number: Any) -> tf.Tensor:
    """
    :param ended: raw (B, K), bool
    :param number: raw scalar, of frames
    :return: raw (B, K), bool: the sequence has ended, or has as many frames as it may have
    """
    limits = layout.length.limits
    if limits is None:
        return ended
    number = rf.convert_to_tensor(number, dims=(), dtype="int32")
    return tf.logical_or(ended, _raw(rf.compare_bc(limits, "<=", number), layout.hypotheses))


def _of_continued(layout: LoopLayout, raw: tf.Tensor) -> tf.Tensor:
    """
    :param raw: (B, K), of the hypotheses before this frame
    :return: (B, K), for those after it
    """
    if layout.compiled.inferred.beam is None:
        return raw
    x = Tensor("before", layout.hypotheses, raw.dtype.name, raw_tensor=raw)
    return _raw(_after_choices(layout.compiled, x), layout.hypotheses)


def _after_choices(compiled: CompiledLoop, x: Tensor) -> Tensor:
    """:return: x for the hypotheses after the last choice of the step, as the next frame sees it"""
    inferred, beams = compiled.inferred, compiled.inputs.layer.network.beams
    if inferred.beam is None:
        return x
    return as_beam_of_frame_before(beams.translate(x, beams.get(inferred.beam.dim)), inferred.prev_beam)


def _raw(x: Tensor, dims: Sequence[Dim]) -> tf.Tensor:
    """:return: raw tensor with these dims; values are repeated along those that x does not have"""
    return rf.expand_to(x, dims).copy_compatible_to_dims_raw(dims)


def _print_outputs(compiled: CompiledLoop, frame: StepFrame) -> list[Any]:
    """:return: operations that print the outputs of all layers of the step, one after the other"""
    prints: list[Any] = []
    for path in compiled.plan.at("inside"):
        output = frame.layers[path].output
        with tf.control_dependencies(prints[-1:]):
            name = f"{compiled.inputs.prefix}{path}, step"
            prints.append(tf.print(name, frame.i, ":", output.raw_tensor, output_stream=sys.stdout))
    return prints
