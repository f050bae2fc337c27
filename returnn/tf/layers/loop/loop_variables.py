"""The variables of a loop, all raw: what goes from frame to frame, and the arrays of what is kept of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.kept_frames import Kept
from returnn.tf.layers.loop.loop_length import LoopLength
from returnn.tf.layers.loop.search_around.beam_around import beam_before_frame, beam_before_loop
from returnn.tf.layers.loop.smaller_batch.sequences_left import SequencesLeft
from returnn.tf.layers.search.beam import Beam, score_dtype


@dataclass(frozen=True)
class LoopVariables:
    """
    The values before or after a frame. B is the batch, K the beam after the last choice of a step; without search,
    there is no K. Arrays have an entry for each frame.
    """

    i: tf.Tensor  # scalar: number of the frame
    prev: Mapping[str, tf.Tensor]  # (B, K, ...): outputs of the frame before, by path
    states: Mapping[str, Mapping[str, tf.Tensor]]  # (B, K, ...): by path and name
    kept: Mapping[str, tf.TensorArray]  # of (B, K, ...): outputs, by path
    kept_states: Mapping[str, Mapping[str, tf.TensorArray]]  # of (B, K, ...): hidden states, by path and name
    ended: tf.Tensor | None = None  # (B, K), bool; None if the length is known
    lengths: tf.Tensor | None = None  # (B, K), int32: frames until a sequence ended; None if it is known
    cut: tf.Tensor | None = None  # (B, K), bool: would go on, but is at the limit; None without search, or limit
    scores: tf.Tensor | None = None  # (B, K), log space; None without search
    src_beams: tf.TensorArray | None = None  # of (B, K), int32: which hypothesis of the frame before is continued
    first: tf.Tensor | None = None  # (B, K), int32: the same of those before the first frame; None if they are all one

    def as_dict(self) -> dict[str, Any]:
        """:return: those that there are, by name"""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class LoopLayout:
    """The dims of the variables of a loop."""

    compiled: CompiledLoop
    kept: Kept
    length: LoopLength
    hypotheses: tuple[Dim, ...]  # dims of what each sequence or hypothesis has: "ended", "lengths", "cut", "scores"
    beam_before: Beam | None = None  # the hypotheses before the first frame
    left: SequencesLeft | None = None  # of the batch, if others have left it. Arrays are always of the whole batch

    @property
    def prev(self) -> dict[str, Tensor]:
        """Templates of outputs of the frame before, by path."""
        inside = set(self.compiled.plan.at("inside"))
        return {path: template for path, template in self.compiled.inferred.prev.items() if path in inside}

    @property
    def states(self) -> dict[str, dict[str, Tensor]]:
        """Templates of states, by path and name."""
        found = {path: self.compiled.inferred.states.get(path, {}) for path in self.compiled.plan.at("inside")}
        return {path: {k: s.template for k, s in states.items()} for path, states in found.items() if states}

    def shapes_of(self, variables: LoopVariables) -> dict[str, Any]:
        """:return: what the templates know of the shapes, in the structure of `variables.as_dict()`"""
        for_hypotheses = tf.TensorShape([dim.size for dim in self.hypotheses])
        shapes = {
            "i": tf.TensorShape([]),
            "prev": _shapes_of(self.prev),
            "states": {path: _shapes_of(states) for path, states in self.states.items()},
            "kept": tf.nest.map_structure(lambda _: tf.TensorShape([]), variables.kept),
            "kept_states": tf.nest.map_structure(lambda _: tf.TensorShape([]), variables.kept_states),
            "ended": for_hypotheses,
            "lengths": for_hypotheses,
            "cut": for_hypotheses,
            "scores": for_hypotheses,
            "src_beams": tf.TensorShape([]),
            "first": for_hypotheses,
        }
        return {name: shapes[name] for name in variables.as_dict()}

    def beam_before_frame(self, variables: LoopVariables) -> Beam | None:
        """
        :param variables: before a frame
        :return: the hypotheses before it, None without search
        """
        if self.beam_before is None:
            return None
        scores = Tensor("scores", self.hypotheses, score_dtype(), raw_tensor=variables.scores)
        first = None
        if variables.first is not None:
            first = Tensor("first", self.hypotheses, "int32", raw_tensor=variables.first)
        return beam_before_frame(self.beam_before, first, scores)

    def as_outside(self, name: str, raw: tf.Tensor) -> Tensor:
        """
        :param name: of the result
        :param raw: (B, K), after the last frame
        :return: [B, beam]: with the beam of the last choice
        """
        beam = self.compiled.inferred.beam
        dims = [beam.dim if beam is not None and dim.is_beam_dim() else dim for dim in self.hypotheses]
        return Tensor(name, dims, raw.dtype.name, raw_tensor=raw)


def make_layout(compiled: CompiledLoop, kept: Kept, length: LoopLength) -> LoopLayout:
    """:return: the dims of the variables of a loop"""
    inferred = compiled.inferred
    if inferred.prev_beam is not None:
        batch = compiled.inputs.layer.network.step.batch_dims()
        return LoopLayout(compiled, kept, length, (*batch, inferred.prev_beam), beam_before_loop(compiled))
    dims: list[Dim] = []
    if compiled.step.has_end:
        dims += inferred.layers["end"].output.dims
    limited = () if length.limits is None else length.limits.dims
    dims += [dim for dim in limited if dim not in dims]
    return LoopLayout(compiled, kept, length, tuple(dims))


def _shapes_of(templates: Mapping[str, Tensor]) -> dict[str, tf.TensorShape]:
    return {key: tf.TensorShape(template.batch_shape) for key, template in templates.items()}
