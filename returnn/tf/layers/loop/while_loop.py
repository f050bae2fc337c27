"""The loop in the graph: its frames as body of a `tf.while_loop`, or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.log import log
from returnn.tensor import Tensor
from returnn.tf.frontend_low_level.loop_counter import set_loop_counter
from returnn.tf.frontend_low_level.products.loop_products import GradientCollector
from returnn.tf.frontend_low_level.products.search_products import without_gradients
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.frames import FrameRead, SequenceFrame, StepFrame, make_reads
from returnn.tf.layers.loop.history import lengths_in_steps
from returnn.tf.layers.loop.kept_frames import (
    as_layer,
    choose_kept,
    finish_states,
    give_all_frames,
    take_totals,
)
from returnn.tf.layers.loop.loop_length import find_length
from returnn.tf.layers.loop.loop_variables import LoopLayout, LoopVariables, make_layout
from returnn.tf.layers.loop.next_frame import make_initial_states, make_initial_variables, make_next_variables
from returnn.tf.layers.loop.search_around.behind import compiled_behind, declare_frames_behind
from returnn.tf.layers.loop.smaller_batch.outside import NotForFewerSequencesError
from returnn.tf.layers.loop.smaller_batch.rules import why_batch_stays
from returnn.tf.layers.loop.smaller_batch.stages import run_in_stages
from returnn.tf.layers.loop.time_axis import stacked, stacked_raw, traced_back
from returnn.tf.layers.search.beam import Beam, SearchEnd

tf1 = tf.compat.v1


@dataclass(frozen=True)
class FinishedLoop:
    """The loop behind its end."""

    layers: Mapping[str, LayerBase]  # those that are kept, for all frames, by path
    frame: StepFrame  # the last one that was made
    beam: Beam | None  # the hypotheses at the end; None without search
    totals: Mapping[str, Mapping[str, Tensor]]  # what layers of that frame kept, by path, see `LayerBase.after_loop`


def run_loop(compiled: CompiledLoop, before: SequenceFrame) -> FinishedLoop:
    """
    :param compiled: the loop, with layers inside of it
    :param before: what is computed before it
    :return: the loop, which is part of the graph now
    """
    kept = choose_kept(compiled)
    reads = make_reads(compiled, before)
    layout = make_layout(compiled, kept, find_length(compiled))
    initial = make_initial_states(layout, before)
    body = _Body(reads)
    final = _run_frames(layout, body, make_initial_variables(layout, before, initial))
    beam = _final_beam(layout, final)
    time_dim = declare_frames_behind(compiled, beam)
    if final.lengths is not None:
        time_dim.dyn_size_ext = layout.as_outside("lengths", final.lengths)
    beam = None if beam is None else _with_final_scores(layout, beam, final)
    hypotheses = None  # (T, B, K)
    if final.src_beams is not None:
        src_beams = Tensor("src_beams", layout.hypotheses, "int32")
        hypotheses = traced_back(stacked_raw(final.src_beams, src_beams))

    def stack_frames(array: Any, template: Tensor) -> Tensor:
        frames = stacked(array, template, time_dim)
        if hypotheses is not None and compiled.inferred.beam.dim in template.dims:
            frames.raw_tensor = tf.gather(frames.raw_tensor, hypotheses, axis=2, batch_dims=2)
        if final.lengths is not None:
            frames.raw_tensor = frames.raw_tensor[: time_dim.get_dim_value()]
        return frames

    for dim in kept.growing:
        dim.dyn_size_ext = lengths_in_steps(time_dim)
    behind = compiled_behind(compiled)
    states = finish_states(behind, kept, final.kept_states, stack_frames, initial)
    totals = take_totals(behind, states)
    give_all_frames(behind, final.states)
    layers = {
        path: as_layer(
            kept_layer,
            stack_frames(final.kept[path], kept_layer.template),
            before.network,
            states=states.get(path, {}),
            initial=initial.get(path, {}),
            step_layer=body.last_frame.layers[path],
        )
        for path, kept_layer in kept.layers.items()
    }
    return FinishedLoop(layers, body.last_frame, beam, totals)


class _Body:
    """One frame of the loop, as function of the variables."""

    def __init__(self, reads: Mapping[str, FrameRead]) -> None:
        self.reads = reads
        self._frame: StepFrame | None = None

    def __call__(self, layout: LoopLayout, values: dict[str, Any]) -> dict[str, Any]:
        """:return: variables after the frame"""
        variables = LoopVariables(**values)
        compiled = layout.compiled
        beam = layout.beam_before_frame(variables)
        self._frame = StepFrame(compiled, self.reads, variables, layout.hypotheses, beam, layout.left)
        for path in compiled.layers_to_make("inside"):
            self._frame.make(path)
        return make_next_variables(layout, self._frame, variables).as_dict()

    @property
    def last_frame(self) -> StepFrame:
        """The frame that was made last."""
        assert self._frame is not None, "a loop without frames"
        return self._frame


def _run_frames(layout: LoopLayout, body: _Body, variables: LoopVariables) -> LoopVariables:
    """:return: the variables after the last frame"""
    if layout.length.num_unrolled is not None:
        return _unroll(layout, partial(body, layout), variables.as_dict(), layout.length.num_unrolled)
    has_next = partial(goes_on, layout)
    reason = why_batch_stays(layout, variables)
    if not reason:
        try:
            return run_in_stages(layout, variables, has_next, partial(_iterate, body))
        except NotForFewerSequencesError as error:
            reason = str(error)
    if variables.scores is not None:
        name = layout.compiled.inputs.name
        print(f"layer {name!r}: sequences that have ended stay in the batch: {reason}", file=log.v5)
    return _iterate(body, layout, variables, has_next)


def _iterate(
    body: _Body, layout: LoopLayout, variables: LoopVariables, goes_on: Callable[[Mapping[str, Any]], Any]
) -> LoopVariables:
    """:return: the variables after the first frame for which that does not hold"""
    names = sorted(variables.as_dict())
    shapes = layout.shapes_of(variables)
    back_prop = layout.compiled.inputs.back_prop
    collector = GradientCollector(layout.compiled.inputs.layer.network.float_dtype) if back_prop else None

    def cond(*values: Any) -> Any:
        return goes_on(dict(zip(names, values, strict=False)))

    def step(*values: Any) -> list[Any]:
        before = dict(zip(names, values, strict=False))
        set_loop_counter(before["i"])
        if collector is None:
            with without_gradients():
                after = body(layout, before)
            return [after[name] for name in names]
        with collector.frame(values[-1]):
            after = body(layout, before)
        return [*(after[name] for name in names), collector.after_frame()]

    final = tf1.while_loop(
        cond,
        step,
        [*(variables.as_dict()[name] for name in names), *([collector.initial] if collector else [])],
        shape_invariants=[*(shapes[name] for name in names), *([tf.TensorShape([])] if collector else [])],
        back_prop=back_prop,
    )
    if collector is not None:
        collector.finish(final[-1])
    return LoopVariables(**dict(zip(names, final, strict=False)))


def _unroll(
    layout: LoopLayout, body: Callable[[dict[str, Any]], dict[str, Any]], values: dict[str, Any], num: int
) -> LoopVariables:
    """:return: the variables after the last of `num` frames, or of fewer if the loop ends before"""
    length = layout.length
    if length.is_known and isinstance(length.most, int):
        for _ in range(num):
            values = body(values)
        return LoopVariables(**values)
    if length.is_known:
        message = f"{layout.compiled.inputs.prefix}: unroll: there are more frames than max_seq_len={num}"
        with tf.control_dependencies([tf.debugging.assert_less_equal(length.most, num, message=message)]):
            values["i"] = tf.identity(values["i"])
    for _ in range(num):
        values = tf.cond(goes_on(layout, values), partial(body, values), partial(dict, values))
    return LoopVariables(**values)


def goes_on(layout: LoopLayout, values: Mapping[str, Any]) -> Any:
    """:return: raw bool scalar: whether there is another frame"""
    most = layout.length.most
    goes_on = None if most is None else values["i"] < most
    if not layout.length.is_known:
        running = tf.logical_not(tf.reduce_all(values["ended"]))
        goes_on = running if goes_on is None else tf.logical_and(goes_on, running)
    return goes_on


def _final_beam(layout: LoopLayout, final: LoopVariables) -> Beam | None:
    """:return: the hypotheses at the end, which the network knows now; None without search"""
    compiled = layout.compiled
    beam = compiled.inferred.beam
    if beam is None or final.scores is None:
        return None
    found = Beam(beam.dim, beam.choice, scores=layout.as_outside("scores", final.scores))
    if final.first is not None and layout.beam_before is not None:
        first = layout.as_outside("first", final.first).copy_with_roles(sparse_dim=layout.beam_before.dim)
        found = replace(found, source=layout.beam_before.dim, src_beams=first)
        compiled.inputs.layer.network.beams.register(layout.beam_before)
    compiled.inputs.layer.network.beams.register(found)
    return found


def _with_final_scores(layout: LoopLayout, beam: Beam, final: LoopVariables) -> Beam:
    """:return: the beam with the scores that it has behind the loop"""
    compiled, beams = layout.compiled, layout.compiled.inputs.layer.network.beams
    if getattr(beam.choice, "length_normalization", False):  # classes of users do without
        beam = replace(beam, scores=_normalize(compiled, beam.scores))
        beams.register(beam)
    if final.cut is not None and beam.choice is not None:
        best = rf.reduce_argmax(beam.scores, axis=beam.dim)
        cut = layout.as_outside("cut", final.cut)
        of_best = [rf.gather(x, indices=best, axis=beam.dim) for x in (beam.scores, cut)]
        beams.ends[beam.dim] = SearchEnd(compiled.inputs.layer, beam.choice, *of_best)
    return beam


def _normalize(compiled: CompiledLoop, scores: Tensor) -> Tensor:
    """:return: scores divided by the number of labels, where those of all hypotheses have grown to the same one"""
    time_dim = compiled.time_dim_behind
    if compiled.inputs.layer.network.get_config().options.search_depends_on_batch:
        longest = time_dim.get_dim_value_tensor()
    else:
        longest = time_dim.get_size_tensor()
        beams = [dim for dim in longest.dims if dim.is_beam_dim()]
        longest = rf.reduce_max(longest, axis=beams) if beams else longest
    longest = rf.cast(longest, scores.dtype)
    # The last label, which ends a sequence, counts like the others, whether it is part of the sequence or not.
    # `length_normalization_exponent` is about the comparison of hypotheses alone, recorded results say.
    return rf.combine_bc(scores, "/", longest if compiled.inputs.include_eos else longest + 1.0)
