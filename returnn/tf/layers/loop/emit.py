"""
From the plan of a loop to a TensorFlow graph.

Layers before the loop are computed for all frames at once. Inside of the loop, each frame reads its slice of what it
needs of them from tensor arrays; keeps what "prev:" and states need; and writes what is needed outside to tensor
arrays. Layers after the loop are computed for all frames at once again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.final_state import last_frame
from returnn.tf.layers.loop.frames import SequenceFrame, StepFrame, make_kept_outputs
from returnn.tf.layers.loop.search_around.behind import FramesBehind, layers_behind
from returnn.tf.layers.loop.while_loop import run_loop
from returnn.tf.layers.search.beam import Beam
from returnn.tf.layers.structure.unavailable_data import require_available


@dataclass(frozen=True)
class EmittedLoop:
    """A loop in the graph."""

    output: Tensor  # [T, ...], in the order of the loop
    before: SequenceFrame
    inside: StepFrame | None  # None if there is nothing inside of the loop
    after: SequenceFrame
    beam: Beam | None  # the hypotheses at the end; None without search in the loop
    totals: Mapping[str, Mapping[str, Tensor]]  # what layers kept, see `LayerBase.after_loop`

    @property
    def compiled(self) -> CompiledLoop:
        """The loop as its end knows it."""
        return self.after.compiled

    @property
    def networks(self) -> list[Network]:
        """All networks with parameters."""
        return [self.after.network, self.before.network, *([self.inside.network] if self.inside else [])]

    def is_kept(self, path: str) -> bool:
        """:return: whether the layer is known for all frames"""
        return path in self.after.known or path in self.after.layers

    def layer(self, path: str) -> LayerBase:
        """:return: a layer of the time step, for all frames"""
        return self.after.make(path)


def emit(compiled: CompiledLoop) -> EmittedLoop:
    """:return: the loop, which is part of the current graph now"""
    inputs, plan = compiled.inputs, compiled.plan
    kept_outputs = make_kept_outputs(compiled)
    before = SequenceFrame(compiled, known={}, kept_outputs=kept_outputs, has_known_length=inputs.has_known_length)
    for path in compiled.layers_to_make("before"):
        before.make(path)
    finished = run_loop(compiled, before) if plan.at("inside") else None
    known = layers_behind(compiled, before.layers)
    if finished is not None:
        known.update(finished.layers)
    after = FramesBehind(compiled, known=known, kept_outputs=kept_outputs)
    after.give_targets()
    for path in [*compiled.graph.wanted, *compiled.layers_to_make("after")]:
        if plan.place_of(path) != "inside" or path in known:
            after.make(path)
    for path, kept in kept_outputs.items():
        if kept.is_used:
            kept.keep(last_frame(after.make(path).output, compiled.time_dim_behind, kept(), inputs.layer.network.beams))
    output = _in_all_frames(require_available(after.make("output")), after.compiled.time_dim_behind)
    if finished is None:
        return EmittedLoop(output, before, None, after, None, {})
    return EmittedLoop(output, before, finished.frame, after, finished.beam, finished.totals)


def _in_all_frames(output: Tensor, time_dim: Dim) -> Tensor:
    """:return: {T, ...}: also of a layer that depends on nothing in the loop, and was moved out of it"""
    return output if time_dim in output.dims else rf.expand_dim(output, time_dim)
