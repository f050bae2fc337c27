"""
The compiler of loops, as far as nothing is computed: parse, infer, plan, check.

Each stage makes a value that can be printed and tested on its own. `emit` makes the TensorFlow graph of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.loop.blocks import members_of_blocks
from returnn.tf.layers.loop.graph import LoopGraph
from returnn.tf.layers.loop.infer import InferredLoop, build_graph, infer
from returnn.tf.layers.loop.initial_labels import check_initial_labels
from returnn.tf.layers.loop.inputs import LoopInputs
from returnn.tf.layers.loop.plan import LoopPlan, Place, check_plan, make_plan
from returnn.tf.layers.loop.prev_layer import hidden_state_names, make_prev_template, make_stand_in
from returnn.tf.layers.loop.time_step import TimeStep, parse
from returnn.tf.layers.search.dims_of_hypotheses import beam_of_lengths


@dataclass(frozen=True)
class CompiledLoop:
    """A loop of which everything is known but the values."""

    inputs: LoopInputs
    step: TimeStep
    inferred: InferredLoop
    graph: LoopGraph
    plan: LoopPlan

    def __str__(self) -> str:
        return str(self.plan)

    def layers_to_make(self, place: Place) -> list[str]:
        """:return: paths of layers at this place, but for those which the layer makes that they are inside of"""
        blocks = members_of_blocks(self.graph)
        hidden = {path for path, block in blocks.items() if self.inferred.layers[block].hides_layers}
        return [path for path in self.plan.at(place) if path not in hidden]

    @property
    def time_dim_behind(self) -> Dim:
        """The dim of the frames behind the loop, another one if the frames of each hypothesis are its own."""
        inputs = self.inputs
        of_hypotheses = inputs.has_known_length and beam_of_lengths(inputs.time_dim) is not None
        if not of_hypotheses or self.inferred.beam is None:
            return inputs.time_dim
        behind = inputs.layer.new_dim("frames of hypotheses")
        behind.bounded_by = inputs.time_dim
        return behind

    def output_template(self) -> Tensor:
        """:return: [T, ...]: template of the output"""
        out = self.frames_template("output")
        return out.copy_with_roles(time_dim=out.dims[0])

    def declare_lengths(self) -> None:
        """Says what the lengths depend on, if the layer "end" decides about them: they are not known yet."""
        time_dim = self.time_dim_behind
        is_computed = time_dim.dyn_size_ext is not None and time_dim.dyn_size_ext.raw_tensor is not None
        is_declared = time_dim is self.inputs.time_dim and (self.inputs.has_known_length or not self.step.has_end)
        if is_declared or is_computed:
            return
        beam = self.inferred.beam
        if beam is None:
            dims = [*self.inferred.layers["end"].output.dims]
        else:
            dims = [*self.inputs.layer.network.step.batch_dims(), beam.dim]
        time_dim.dyn_size_ext = Tensor("lengths", dims, "int32")

    def frames_template(self, path: str) -> Tensor:
        """:return: [T, ...]: what all frames of a layer of the time step look like from outside"""
        frame = self.inputs.seen_from_outside(self.inferred.layers[path].output)
        beams, behind = self.inputs.layer.network.beams, self.time_dim_behind
        own, last = beams.of(frame), self.inferred.beam
        has_last = self.plan.place_of(path) == "inside" or behind is not self.inputs.time_dim
        if last is not None and own is not None and not own.is_kept and has_last:
            frame = beams.renamed(frame, last.dim)
        return frame._insert_dim(behind, 0)

    def hidden_state_templates(self, path: str) -> dict[str, Tensor]:
        """:return: [..., F] each: parts of the hidden state of a layer of the time step, by name"""
        known = self.inferred.states.get(self.step.owner_of_state(path), {})
        names = hidden_state_names(self.step, path, known)
        return {key: state.template for key, state in known.items() if key in names}


def compile_loop(inputs: LoopInputs) -> CompiledLoop:
    """
    Turns the description of one time step into a loop over all of them.

    :raises ConfigError: if the time step cannot be understood, or its dims contradict each other
    """
    step = parse(inputs)
    inferred = infer(inputs, step, partial(make_prev_template, step), make_stand_in)
    check_initial_labels(inputs, inferred)
    graph = build_graph(inputs, step, inferred)
    plan = make_plan(inputs.name, graph, optimize=inputs.optimize)
    check_plan(plan, graph)
    return CompiledLoop(inputs, step, inferred, graph, plan)
