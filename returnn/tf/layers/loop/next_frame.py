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
from returnn.tf.layers.search.beam import Beam

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
            get_layer = before.initial_layers_of(path)
            values[key] = initial_value(state.initial, state.template, layer=layer, get_layer=get_layer)
    return values


def make_initial_variables(layout: LoopLayout, before: SequenceFrame, states: States) -> LoopVariables:
    """
    :param layout: dims of the variables
    :param before: what is computed before the loop
    :param states: before the first frame
    """
    size = layout.length.size_of_arrays
    ended = lengths = cut = scores = src_beams = first = None
    if layout.compiled.step.has_end:
        ended = _ended_around(layout)
        if layout.beam_before is not None and layout.length.most is not None:
            cut = _cut(layout, ended, 0, layout.beam_before)
        ended = _or_at_limit(layout, ended, 0, layout.beam_before)
        lengths = rf.full(dims=layout.hypotheses, fill_value=0, dtype="int32").raw_tensor
    beam = layout.beam_before
    if beam is not None and beam.scores is not None:
        scores = _raw(beam.scores, layout.hypotheses)
        src_beams = new_array(Tensor("src_beams", dims=layout.hypotheses, dtype="int32"), size)
        first = None if beam.source is None else _raw(rf.range_over_dim(beam.dim), layout.hypotheses)
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
        cut=cut,
        scores=scores,
        src_beams=src_beams,
        first=first,
    )


def _ended_around(layout: LoopLayout) -> tf.Tensor:
    """:return: raw (B, K), bool: those that continue a hypothesis of a loop around which has ended: nothing is added"""
    beam, network = layout.beam_before, layout.compiled.inputs.layer.network
    frame = None if beam is None or beam.source is None else network.step.innermost_frame()
    ended = None if frame is None else frame.ended_before()
    if ended is None:
        return rf.full(dims=layout.hypotheses, fill_value=False, dtype="bool").raw_tensor
    return _raw(network.beams.translate(ended, beam), layout.hypotheses)


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
    ended, lengths, cut = _next_ends(layout, frame, variables)
    scores, src_beams = _next_beam(layout, frame, variables)
    return LoopVariables(
        i=next_i,
        prev={
            path: _raw(_for_next_frame(compiled, layers[path].output, template), template.dims)
            for path, template in layout.prev.items()
        },
        states={
            path: {
                key: _raw(_for_next_frame(compiled, layers[path].new_states[key], template), template.dims)
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
                    i, _in_whole_batch(layout, raw_to_keep(compiled, layers[path].new_states[key], template), template)
                )
                for key, template in templates.items()
            }
            for path, templates in layout.kept.states.items()
        },
        ended=ended,
        lengths=lengths,
        cut=cut,
        scores=scores,
        src_beams=src_beams,
        first=None if variables.first is None else _of_continued(layout, variables.first),
    )


def _frame_to_keep(layout: LoopLayout, kept: KeptLayer, layer: LayerBase) -> tf.Tensor:
    """:return: raw (B, K, ...)"""
    raw = raw_to_keep(layout.compiled, kept.value_of_frame(layer), kept.template)
    raw = with_size_of_last(raw, kept.template, layout.kept.growing, layout.length.most)
    return _in_whole_batch(layout, raw, kept.template)


def _in_whole_batch(layout: LoopLayout, raw: tf.Tensor, template: Tensor) -> tf.Tensor:
    """
    :param raw: of a frame
    :param template: of that
    :return: raw, with zeros for sequences which have left the batch
    """
    if layout.left is None:
        return raw
    axis = next((i for i, dim in enumerate(template.dims) if dim.is_batch_dim()), None)
    return raw if axis is None else layout.left.in_whole_batch(raw, axis)


def _next_ends(
    layout: LoopLayout, frame: StepFrame, variables: LoopVariables
) -> tuple[tf.Tensor | None, tf.Tensor | None, tf.Tensor | None]:
    """:return: raw (B, K), see `LoopVariables`: ended, lengths, cut"""
    if variables.ended is None or variables.lengths is None:
        return None, None, None
    compiled = layout.compiled
    end = _raw(_after_choices(compiled, frame.layers["end"].output), layout.hypotheses)
    before = _of_continued(layout, variables.ended)
    lengths = _of_continued(layout, variables.lengths)
    ended = tf.logical_or(before, end)
    is_over = before if compiled.inputs.include_eos else ended
    lengths += tf.cast(tf.logical_not(is_over), tf.int32)
    number, beam, cut = variables.i + 1, _last_beam(compiled), None
    if variables.cut is not None:
        cut = tf.logical_or(_of_continued(layout, variables.cut), _cut(layout, ended, number, beam))
    return _or_at_limit(layout, ended, number, beam), lengths, cut


def _next_beam(
    layout: LoopLayout, frame: StepFrame, variables: LoopVariables
) -> tuple[tf.Tensor | None, tf.TensorArray | None]:
    """:return: raw (B, K): scores of the hypotheses after this frame; array of which ones they continue"""
    inferred, beams = layout.compiled.inferred, layout.compiled.inputs.layer.network.beams
    beam = _last_beam(layout.compiled)
    if beam is None or variables.src_beams is None:
        return None, None
    source = beams.source_indices(beam, inferred.prev_beam)
    batch_major = [*layout.hypotheses[:-1], beam.dim]
    continued = source.copy_compatible_to_dims_raw(batch_major)
    if layout.left is not None:
        continued = layout.left.in_whole_batch(continued, others=tf.range(tf.shape(continued)[-1])[None])
    return beam.scores.copy_compatible_to_dims_raw(batch_major), variables.src_beams.write(variables.i, continued)


def _or_at_limit(layout: LoopLayout, ended: tf.Tensor, number: Any, beam: Beam | None) -> tf.Tensor:
    """
    :param ended: raw (B, K), bool
    :param number: raw scalar, of frames
    :param beam: the hypotheses after so many frames; None without search
    :return: raw (B, K), bool: the sequence has ended, or has as many frames as it may have
    """
    return ended if layout.length.limits is None else tf.logical_or(ended, _at_limit(layout, number, beam))


def _cut(layout: LoopLayout, ended: tf.Tensor, number: Any, beam: Beam | None) -> tf.Tensor:
    """:return: raw (B, K), bool: the sequence has not ended, and has as many frames as it may have"""
    return tf.logical_and(tf.logical_not(ended), _at_limit(layout, number, beam))


def _at_limit(layout: LoopLayout, number: Any, beam: Beam | None) -> tf.Tensor:
    """:return: raw bool (B, K), or scalar if the limit is the same for all: there are as many frames as there may be"""
    limits = layout.length.limits
    if limits is None:
        return number >= layout.length.most
    number = rf.convert_to_tensor(number, dims=(), dtype="int32")
    beams = layout.compiled.inputs.layer.network.beams
    limits = beams.renamed(beams.translate(limits, beam), layout.compiled.inferred.prev_beam)
    return _raw(rf.compare_bc(limits, "<=", number), layout.hypotheses)


def _of_continued(layout: LoopLayout, raw: tf.Tensor) -> tf.Tensor:
    """
    :param raw: (B, K), of the hypotheses before this frame
    :return: (B, K), for those after it
    """
    if layout.compiled.inferred.beam is None:
        return raw
    x = Tensor("before", layout.hypotheses, raw.dtype.name, raw_tensor=raw)
    return _raw(_after_choices(layout.compiled, x), layout.hypotheses)


def _for_next_frame(compiled: CompiledLoop, x: Tensor, template: Tensor) -> Tensor:
    """:return: x as the next frame sees it; what only depends on hypotheses around the loop stays as it is"""
    beam = compiled.inputs.layer.network.beams.of(template)
    return x if beam is not None and compiled.inferred.prev_beam != beam.dim else _after_choices(compiled, x)


def _after_choices(compiled: CompiledLoop, x: Tensor) -> Tensor:
    """:return: x for the hypotheses after the last choice of the step, as the next frame sees it"""
    beam = _last_beam(compiled)
    if beam is None:
        return x
    beams = compiled.inputs.layer.network.beams
    return beams.renamed(beams.translate(x, beam), compiled.inferred.prev_beam)


def _last_beam(compiled: CompiledLoop) -> Beam | None:
    """:return: the hypotheses after the last choice of the step, None without search"""
    beam = compiled.inferred.beam
    return None if beam is None else compiled.inputs.layer.network.beams.get(beam.dim)


def _raw(x: Tensor, dims: Sequence[Dim]) -> tf.Tensor:
    """:return: raw tensor with these dims; values are repeated along those that x does not have"""
    return rf.expand_to(x, dims).copy_compatible_to_dims_raw(dims)


def _print_outputs(compiled: CompiledLoop, frame: StepFrame) -> list[Any]:
    """:return: operations that print the outputs of all layers of the step, one after the other"""
    prints: list[Any] = []
    for path in compiled.layers_to_make("inside"):
        output = frame.layers[path].output
        with tf.control_dependencies(prints[-1:]):
            name = f"{compiled.inputs.prefix}{path}, step"
            prints.append(tf.print(name, frame.i, ":", output.raw_tensor, output_stream=sys.stdout))
    return prints
