"""The frames of a loop that is being made: all frames at once, outside; or a single one, inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.step_state import ForAfterLoop, StateTemplate
from returnn.tf.layers.loop.across_batches.kept_state import KeptInitial, KeptState, is_word
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.final_state import KeptFrames
from returnn.tf.layers.loop.frame import Frame
from returnn.tf.layers.loop.initial import InitialOutput, applied_on_zeros, initial_value
from returnn.tf.layers.loop.inputs import template_of_frame
from returnn.tf.layers.loop.loop_variables import LoopVariables
from returnn.tf.layers.loop.prev_layer import PrevLayer, hidden_state_names
from returnn.tf.layers.loop.smaller_batch.sequences_left import SequencesLeft
from returnn.tf.layers.loop.time_axis import shifted, unstacked
from returnn.tf.layers.loop.time_step import name_in_step
from returnn.tf.layers.search.beam import Beam
from returnn.tf.layers.structure.unavailable_data import require_available

Read = Callable[[Any], Tensor]  # function from the number of a frame, a raw scalar, to this frame [...]


class SequenceFrame(Frame):
    """All frames at once: what is computed before or after the loop."""

    is_single = False

    def __init__(
        self,
        compiled: CompiledLoop,
        *,
        known: Mapping[str, LayerBase],
        kept_outputs: Mapping[str, KeptInitial],
        has_known_length: bool,
    ) -> None:
        """
        :param compiled: the loop
        :param known: layers for all frames that there are already, by path
        :param kept_outputs: see `make_kept_outputs`
        :param has_known_length: whether the number of frames is known
        """
        inputs = compiled.inputs
        super().__init__(inputs.prefix, inputs.layer)
        self.compiled = compiled
        self.time_dim = inputs.time_dim
        self.known = known
        self.kept_outputs = kept_outputs
        self.network = inputs.make_network(self, is_step=False, source=inputs.source)
        if has_known_length:
            self.network.set_rec_step_info(i=rf.range_over_dim(self.time_dim), offset=inputs.first_step)

    def make(self, path: str) -> LayerBase:
        """:return: layer of the time step, for all frames"""
        return self.get_layer(path)

    def give_targets(self) -> None:
        """The losses of layers that were in the loop compare all frames with those of targets from the time step."""
        for layer in self.known.values():
            if isinstance(layer, KeptFrames) and layer.loss is not None:
                paths = {key: self.path_of(x.get_absolute_name()) for key, x in layer._target_layers.items()}
                made = {key: self.make(path) for key, path in paths.items() if path is not None}
                layer._target_layers = {**layer._target_layers, **made}

    def step_data(self, key: str, data: Tensor) -> Tensor:
        """:return: data of the network around, in the order of the loop"""
        return self.in_order(self.compiled.inputs.data_of_frames(key, data))

    def in_order(self, x: Tensor) -> Tensor:
        """:return: the frames of a sequence in the order of the loop"""
        return self.compiled.inputs.in_order(x)

    def get_layer(self, name: str) -> LayerBase:
        """:return: layer by a name as it stands in the time step"""
        return self.network.construct_layer(self.network.layers_desc, name)

    def initial_layers_of(self, path: str) -> Callable[[str], LayerBase]:
        """:return: function of the names of layers as this one sees them, for what it begins with"""
        return lambda name: self.get_layer(name_in_step(name, path))

    def moved_layer(self, path: str) -> LayerBase | None:
        """:return: what is there already"""
        return self.known.get(path)

    def prev_layer(self, path: str) -> LayerBase:
        """:return: all frames, each one later"""
        output = self.prev_output(path)
        layer, beams = self.make(path), self.network.beams
        owner_path = self.compiled.step.owner_of_state(path)
        states = self.compiled.inferred.states.get(owner_path, {})

        def state_before(name: str) -> Tensor:
            state = states[name]
            owner = self.layer_for_parameters(owner_path)
            initial = initial_value(
                state.initial, state.template, layer=owner, get_layer=self.initial_layers_of(owner_path)
            )
            frames = layer.hidden_state_parts()[name]
            return shifted(frames, self.time_dim, beams.before_first_frame(initial, frames))

        names = tuple(name for name in states if layer.has_hidden_state() and name in layer.hidden_state_parts())
        return PrevLayer(
            name=f"prev:{path}",
            network=self.network,
            output=output,
            find_state_names=lambda: names,
            state_before=state_before,
        )

    def prev_output(self, path: str) -> Tensor:
        """:return: output of the frame before, for all frames"""
        frames, beams = require_available(self.make(path)), self.network.beams
        return shifted(frames, self.time_dim, beams.before_first_frame(self.initial_output(path), frames))

    def initial_output(self, path: str, template: Tensor | None = None) -> Tensor:
        """
        :param path: of a layer
        :param template: what its output looks like, if no layer uses "prev:" of it
        :return: output before the first frame
        """
        if path in self.kept_outputs:
            return self.kept_outputs[path]()
        template = self.compiled.inferred.prev.get(path, template)
        layer = self.layer_for_parameters(path)
        return initial_value(
            layer._initial_output,
            template,
            layer=layer,
            get_layer=self.initial_layers_of(path),
            apply_on_zeros=lambda: applied_on_zeros(self.compiled.inferred.layers[path], self.network),
        )

    def kept_for_after_loop(self, path: str) -> dict[str, StateTemplate]:
        """:return: what a layer keeps for after a loop around, as states by key"""
        return _kept_for_after_loop(self.compiled, path)

    def going_on(self) -> Tensor | None:
        """:return: whether the frame of a loop around belongs to a sequence"""
        return _going_on_around(self.compiled)

    def layer_for_parameters(self, path: str) -> LayerBase:
        """:return: layer by which parameters can be made that belong to the one of this path"""
        template = self.compiled.inferred.layers[path]
        layer = InternalLayer(
            name=template.name, network=self.network, output=template.output, name_scope=template.name_scope
        )
        layer._initial_output = template._initial_output
        self.network.params.add_layer(layer)
        return layer


@dataclass(frozen=True)
class FrameRead:
    """How one frame is read of what is known for all of them."""

    read: Read
    params: Mapping[str, Any] = field(default_factory=dict)  # of the layer: another one may share them in the loop

    def __call__(self, i: tf.Tensor) -> Tensor:
        """:return: the frame of this number"""
        return self.read(i)


class StepFrame(Frame):
    """One frame, inside of the loop."""

    def __init__(
        self,
        compiled: CompiledLoop,
        reads: Mapping[str, FrameRead],
        variables: LoopVariables,
        hypotheses: Sequence[Dim],
        beam_before: Beam | None,
        left: SequencesLeft | None = None,
    ) -> None:
        """
        :param compiled: the loop
        :param reads: see `make_reads`
        :param variables: of the loop, before this frame
        :param hypotheses: dims of those variables that each sequence or hypothesis has
        :param beam_before: the hypotheses before this frame, None without search
        :param left: the sequences that it is about; None for the whole batch
        """
        inputs = compiled.inputs
        super().__init__(inputs.prefix, inputs.layer)
        self.compiled = compiled
        self.reads = reads
        self.i = variables.i
        self.variables = variables
        self.hypotheses = hypotheses
        self.beam_before = beam_before
        self.left = left
        if beam_before is not None:
            inputs.layer.network.beams.register(beam_before)
        source = reads["data:source"](self.i) if "data:source" in reads else None
        self.network = inputs.make_network(self, is_step=True, source=source)
        index = Tensor("i", dims=(), dtype="int32", raw_tensor=self.i, sparse_dim=inputs.time_dim)
        self.network.set_rec_step_info(i=index, offset=inputs.first_step)
        self._slices: dict[str, LayerBase] = {}
        self._graph = tf.compat.v1.get_default_graph()

    def make(self, path: str) -> LayerBase:
        """
        :return: layer of this frame
        :raises TargetNotAvailable: if it is computed from data that is not there: the loop cannot do without
        """
        layer = self.network.construct_layer(self.network.layers_desc, path)
        require_available(layer)
        return layer

    def moved_layer(self, path: str) -> LayerBase | None:
        """:return: this frame of a layer that is computed before the loop"""
        return self._slice(path, path) if path in self.reads else None

    def prev_layer(self, path: str) -> LayerBase:
        """:return: the layer in the frame before"""
        name = f"prev:{path}"
        if name in self.reads:
            return self._slice(name, name)
        output = self.compiled.inferred.prev[path].copy_template()
        output.raw_tensor = self.variables.prev[path]
        owner = self.compiled.step.owner_of_state(path)
        states = self.compiled.inferred.states.get(owner, {})
        names = tuple(name for name in hidden_state_names(self.compiled.step, path, states) if name in states)
        return PrevLayer(
            name=name,
            network=self.network,
            output=output,
            find_state_names=lambda: names,
            state_before=lambda state: self.state_before(owner, state, output),
        )

    def output_before(self, path: str) -> Tensor | None:
        """:return: output of a layer in the frame before, as far as that is kept"""
        return self.prev_layer(path).output if path in self.variables.prev else None

    def step_data(self, key: str, data: Tensor) -> Tensor:
        """:return: frame of data of the network around"""
        inputs = self.compiled.inputs
        data = inputs.data_of_frames(key, data)
        if inputs.time_dim not in data.dims:
            return data
        if data.raw_tensor is None:  # a target, of which layers without search may only ask for the dims
            return template_of_frame(data, inputs.time_dim)
        return unstacked(inputs.in_order(data), inputs.time_dim)(self.i)

    def in_order(self, x: Tensor) -> Tensor:
        """:return: the frames of a sequence in the order of the loop"""
        return self.compiled.inputs.in_order(x)

    def state_before(self, path: str, key: str, template: Tensor) -> Tensor:
        """:return: state after the frame before"""
        state = self.compiled.inferred.states[path][key].template.copy_template()
        state.raw_tensor = self.variables.states[path][key]
        beams = self.network.beams
        return beams.translate(state, beams.of(template))

    def state_templates(self, path: str) -> dict[str, Tensor]:
        """:return: what the state of a layer looks like, by the names of its parts"""
        states = self.compiled.inferred.states.get(path, {})
        return {key: x.template for key, x in states.items() if not isinstance(x.initial, ForAfterLoop)}

    def kept_for_after_loop(self, path: str) -> dict[str, StateTemplate]:
        """:return: what a layer keeps for after the loop, as states by key"""
        return _kept_for_after_loop(self.compiled, path)

    def states_inside(self, path: str) -> dict[str, Mapping[str, StateTemplate]]:
        """:return: by path, the states (by name) of a layer and of those inside of it, also if there are none"""
        inferred = self.compiled.inferred
        inside = (other for other in inferred.layers if other == path or other.startswith(f"{path}/"))
        return {other: inferred.states.get(other, {}) for other in inside}

    def scores_before(self) -> Tensor | None:
        """:return: [B, beam]: scores of the hypotheses after the frame before"""
        return None if self.beam_before is None else self.beam_before.scores

    def src_beams_before(self) -> Tensor | None:
        """:return: [B, beam], int32: which hypotheses those after the frame before continue; 0 in the first frame"""
        out = Tensor("src_beams", dims=self.hypotheses, dtype="int32")
        none = tf.zeros(tf.shape(self.variables.scores), "int32")

        def read() -> tf.Tensor:
            src_beams = self.variables.src_beams.read(self.i - 1)
            return src_beams if self.left is None else self.left.of_whole_batch(src_beams)

        out.raw_tensor = tf.cond(self.i > 0, read, lambda: none)
        return out

    def ended_before(self) -> Tensor | None:
        """:return: [B, beam], bool: whether the sequence had ended before this frame"""
        if self.variables.ended is not None:
            return self._of_hypotheses("ended", self.variables.ended)
        lengths, index = self.compiled.inputs.time_dim.get_size_tensor(), self.network.get_rec_step_info().index
        if self.network.get_config().options.search_depends_on_batch:
            return rf.compare(index, ">", lengths)  # for one frame beyond the end, where the batch has that
        return rf.compare(index, ">=", lengths)

    def going_on(self) -> Tensor:
        """:return: [B, beam], bool: whether the frame belongs to a sequence"""
        if self.variables.ended is not None:
            going_on = rf.logical_not(self._of_hypotheses("ended", self.variables.ended))
        else:
            lengths, index = self.compiled.inputs.time_dim.get_size_tensor(), self.network.get_rec_step_info().index
            going_on = rf.compare(index, "<", lengths)
        around = _going_on_around(self.compiled)
        return going_on if around is None else rf.logical_and(going_on, around)

    def _of_hypotheses(self, name: str, raw: tf.Tensor) -> Tensor:
        return Tensor(name, dims=self.hypotheses, dtype=raw.dtype.name, raw_tensor=raw)

    def _slice(self, key: str, name: str) -> LayerBase:
        if key not in self._slices:
            read = self.reads[key]
            with self._graph.as_default():  # not that of a branch of a condition, whose values only the branch has
                layer = InternalLayer(name=name, network=self.network, output=read(self.i))
            layer.own_params = dict(read.params)
            self._slices[key] = layer
        return self._slices[key]


def _kept_for_after_loop(compiled: CompiledLoop, path: str) -> dict[str, StateTemplate]:
    states = compiled.inferred.states.get(path, {})
    return {key: state for key, state in states.items() if isinstance(state.initial, ForAfterLoop)}


def _going_on_around(compiled: CompiledLoop) -> Tensor | None:
    frame = compiled.inputs.layer.network.step.innermost_frame()
    return None if frame is None else frame.going_on()


def make_kept_outputs(compiled: CompiledLoop) -> dict[str, KeptInitial]:
    """:return: outputs before the first frame that go on from the batch before, by path of the layer"""
    inferred = compiled.inferred
    templates = dict(inferred.prev)
    for path, states in inferred.states.items():
        for state in states.values():
            if isinstance(state.initial, InitialOutput):
                templates.setdefault(path, state.template)
    words = {path: inferred.layers[path]._initial_output for path in templates}
    return {
        path: KeptInitial(KeptState(inferred.layers[path], "output", word), templates[path].copy_template)
        for path, word in words.items()
        if is_word(word)
    }


def make_reads(compiled: CompiledLoop, before: SequenceFrame) -> dict[str, FrameRead]:
    """
    :param compiled: the loop
    :param before: what is computed before it
    :return: for each thing that a frame reads, by its name in the time step, the function that gives the frame
    """
    inputs = compiled.inputs
    reads: dict[str, FrameRead] = {}
    if inputs.source is not None:
        reads["data:source"] = FrameRead(unstacked(inputs.source, inputs.time_dim))
    inside = compiled.plan.at("inside")
    edges = {edge for path in inside for edge in compiled.inferred.edges.get(path, ())}
    for edge in sorted(edges, key=str):
        placement = compiled.plan.placements.get(edge.path)
        is_before = edge.path.startswith("data") if placement is None else placement.place == "before"
        if edge.kind == "prev" and is_before:
            reads[str(edge)] = FrameRead(unstacked(before.prev_output(edge.path), inputs.time_dim))
        elif edge.kind == "same" and is_before and placement is not None:
            layer = before.make(edge.path)
            reads[str(edge)] = FrameRead(unstacked(require_available(layer), inputs.time_dim), layer.params)
    return reads
