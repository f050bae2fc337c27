"""
From the plan of a loop to a TensorFlow graph.

Layers before the loop are computed for all frames at once. Inside of the loop, each frame reads its slice of what it
needs of them from tensor arrays; keeps what "prev:" and states need; and writes what is needed outside to tensor
arrays. Layers after the loop are computed for all frames at once again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.loop_counter import set_loop_counter
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.loop.final_state import last_frame
from returnn.tf.layers.loop.frames import KeptLayer, SequenceFrame, StepFrame, kept_as_layer
from returnn.tf.layers.loop.history import NoFrames
from returnn.tf.layers.loop.initial import InitialOutput, initial_value
from returnn.tf.layers.loop.kept_state import KeptInitial, is_word
from returnn.tf.layers.loop.prev_layer import hidden_state_names
from returnn.tf.layers.loop.time_axis import new_array, stacked, traced_back, unstacked
from returnn.tf.layers.search.beam import Beam, as_beam_of_frame_before
from returnn.tf.layers.search.search_choices import SearchChoices

if TYPE_CHECKING:
    from returnn.tf.layers.loop.infer import InferredLoop
    from returnn.tf.layers.loop.plan import LoopPlan
    from returnn.tf.layers.loop.subnet_cell import SubnetworkRecCell

tf1 = tf.compat.v1


@dataclass(frozen=True)
class LoopInputs:
    """What a loop is made of, beside its plan."""

    cell: SubnetworkRecCell
    source: Tensor | None
    time_dim: Dim
    has_known_length: bool
    include_eos: bool
    max_seq_len: Callable[[], int | Tensor | None] | None
    unroll: bool
    back_prop: bool
    kept_outputs: dict[str, KeptInitial] = field(default_factory=dict)  # "prev:" of these goes on in the next batch


@dataclass(frozen=True)
class EmittedLoop:
    """A loop in the graph."""

    output: Tensor
    before: SequenceFrame
    after: SequenceFrame
    step_network: Any  # None if there is nothing inside of the loop

    @property
    def networks(self) -> list[Any]:
        """All networks with parameters."""
        return [self.after.network, self.before.network, *([self.step_network] if self.step_network else [])]

    def is_kept(self, path: str) -> bool:
        """:return: whether the layer is known for all frames"""
        return path in self.after.known or path in self.after.layers

    def layer(self, path: str) -> LayerBase:
        """:return: a layer of the time step, for all frames"""
        return self.after.make(path)


def emit(inputs: LoopInputs, inferred: InferredLoop, plan: LoopPlan) -> EmittedLoop:
    """:return: the loop, which is part of the current graph now"""
    before = SequenceFrame(inputs, inferred, known={}, has_known_length=inputs.has_known_length)
    for path in plan.at("before"):
        before.make(path)
    known = dict(before.layers)
    step_network = None
    if plan.at("inside"):
        loop = LoopEmitter(inputs, inferred, plan, before)
        known.update(loop.run())
        step_network = loop.step_network
    after = SequenceFrame(inputs, inferred, known=known, has_known_length=True)
    after.give_targets()
    for path in [*inputs.cell.wanted, *plan.at("after")]:
        if plan.place_of(path) != "inside" or path in known:
            after.make(path)
    for path, kept in inputs.kept_outputs.items():
        kept.keep(last_frame(after.make(path).output, inputs.time_dim, kept.kept.before))
    return EmittedLoop(after.make("output").output, before, after, step_network)


class LoopEmitter:
    """Makes the loop itself, for the layers inside of it."""

    def __init__(self, inputs: LoopInputs, inferred: InferredLoop, plan: LoopPlan, before: SequenceFrame) -> None:
        self.inputs = inputs
        self.inferred = inferred
        self.plan = plan
        self.before = before
        self.inside = plan.at("inside")
        self.prev_paths = [path for path in inferred.prev if path in self.inside]
        self.state_paths = [path for path in self.inside if inferred.states.get(path)]
        self.kept_states = {path: self._states_to_keep(path) for path in self.state_paths}
        self.initial_states: dict[str, dict[str, Tensor]] = {}
        self.kept = self._kept_layers()
        self.reads = self._make_reads()
        self.step_network: Any = None
        limit = None if inputs.has_known_length or inputs.max_seq_len is None else inputs.max_seq_len()
        self.limits = limit if isinstance(limit, Tensor) and limit.dims else None  # of each sequence, if they have one
        self.length = self._length(limit)
        self.beams = inputs.cell.rec_layer.network.beams
        end = (
            None
            if not inputs.cell.has_end
            else as_beam_of_frame_before(inferred.layers["end"].output, inferred.prev_beam)
        )
        if inferred.prev_beam is not None:
            batch = inputs.cell.rec_layer.network.step.batch_dims()
            self.dims_of_hypotheses: list[Dim] = [*batch, inferred.prev_beam]
        else:
            self.dims_of_hypotheses = [] if end is None else list(end.dims)
            limited = [] if self.limits is None else self.limits.dims
            self.dims_of_hypotheses += [dim for dim in limited if dim not in self.dims_of_hypotheses]

    def run(self) -> dict[str, LayerBase]:
        """:return: the layers that are kept, for all frames, by path"""
        final = self._while(self._initial_variables())
        length = None
        if not self.inputs.has_known_length:
            lengths = Tensor(
                "lengths", self._dims_outside(self.dims_of_hypotheses), "int32", raw_tensor=final["lengths"]
            )
            self.inputs.time_dim.dyn_size_ext = lengths
            length = self.inputs.time_dim.get_dim_value()
        hypotheses = None
        if self.inferred.beam is not None:
            hypotheses = traced_back(final["src_beams"].stack())
            dims = self._dims_outside(self.dims_of_hypotheses)
            scores = Tensor("scores", dims, "float32", raw_tensor=final["scores"])
            beam = self.inferred.beam
            choices = SearchChoices(self.inputs.cell.rec_layer, beam.dim.dimension or 0)
            choices.set_beam(Beam(beam.dim, beam.choice, None, None, self._normalized(scores)))
            self.inputs.cell.rec_layer.search_choices = choices

        def all_frames(array: Any, template: Tensor) -> Tensor:
            frames = stacked(array, template, self.inputs.time_dim)
            if hypotheses is not None and self.inferred.beam.dim in template.dims:
                frames.raw_tensor = tf.gather(frames.raw_tensor, hypotheses, axis=2, batch_dims=2)
            if length is not None:
                frames.raw_tensor = frames.raw_tensor[:length]
            return frames

        states = self._final_states(final["kept_states"], all_frames)
        self._give_all_frames(final["state"])
        return {
            path: kept_as_layer(
                kept, all_frames(final["kept"][path], kept.template), self.before.network,
                states=states.get(path, {}), initial=self.initial_states.get(path, {}),
                step_layer=self.step_network.step.innermost_frame().layers[path],
            )
            for path, kept in self.kept.items()
        }  # fmt: skip

    def _final_states(
        self, arrays: dict[str, dict[str, Any]], all_frames: Callable[[Any, Tensor], Tensor]
    ) -> dict[str, dict[str, Tensor]]:
        """:return: hidden states of all frames, as far as they are kept; those for the next batch are updated"""
        states = {
            path: {key: all_frames(array, self.kept_states[path][key]) for key, array in parts.items()}
            for path, parts in arrays.items()
        }
        for path, parts in states.items():
            for key, frames in parts.items():
                initial = self.inferred.states[path][key].initial
                if isinstance(initial, KeptInitial):
                    initial.keep(last_frame(frames, self.inputs.time_dim, self.initial_states[path][key]))
        return states

    def _give_all_frames(self, states: dict[str, dict[str, Any]]) -> None:
        """Hands the frames which a layer collected in its state to whom they concern after the loop."""
        for path, parts in states.items():
            for key, raw in parts.items():
                initial = self.inferred.states[path][key].initial
                if isinstance(initial, NoFrames) and initial.after_loop is not None:
                    axis = initial.template.get_axis_from_description(initial.axis)
                    frames = initial.template.copy_template_replace_dim_tag(axis, self.inputs.time_dim)
                    frames.raw_tensor = raw
                    initial.after_loop(frames, self.inputs.time_dim)

    def _dims_outside(self, dims: list[Dim]) -> list[Dim]:
        """:return: the dims, with the beam of the last choice in place of the one of the frame before"""
        beam = self.inferred.beam
        return [beam.dim if beam is not None and dim.is_beam_dim() else dim for dim in dims]

    # The loop.

    def _while(self, variables: dict[str, Any]) -> dict[str, Any]:
        num_unrolled = self._num_unrolled()
        if num_unrolled is not None:
            return self._unrolled(variables, num_unrolled)
        names = sorted(variables)

        def cond(*values: Any) -> Any:
            return self._go_on(dict(zip(names, values, strict=True)))

        def body(*values: Any) -> list[Any]:
            variables = dict(zip(names, values, strict=True))
            set_loop_counter(variables["i"])
            result = self._body(variables)
            return [result[name] for name in names]

        final = tf1.while_loop(
            cond,
            body,
            [variables[name] for name in names],
            shape_invariants=[self._shapes(name, variables[name]) for name in names],
            back_prop=self.inputs.back_prop,
        )
        return dict(zip(names, final, strict=True))

    def _num_unrolled(self) -> int | None:
        """:return: so many frames are in the graph one after the other; None for a loop"""
        if not self.inputs.unroll:
            return None
        if self.length is None or tf.is_tensor(self.length):
            limit = self.inputs.max_seq_len() if self.inputs.max_seq_len is not None else None
            return limit if isinstance(limit, int) else None
        return self.length

    def _unrolled(self, variables: dict[str, Any], num: int) -> dict[str, Any]:
        if self.inputs.has_known_length and isinstance(self.length, int):
            for _ in range(num):
                variables = self._body(variables)
            return variables
        if self.inputs.has_known_length:
            message = f"{self.inputs.cell.prefix}: unroll: there are more frames than max_seq_len={num}"
            with tf.control_dependencies([tf.debugging.assert_less_equal(self.length, num, message=message)]):
                variables["i"] = tf.identity(variables["i"])
        for _ in range(num):
            variables = tf.cond(self._go_on(variables), partial(self._body, variables), partial(dict, variables))
        return variables

    def _shapes(self, name: str, value: Any) -> Any:
        """:return: shapes of a loop variable, in the same structure: what the templates say"""
        if name == "prev":
            return {path: tf.TensorShape(self.inferred.prev[path].batch_shape) for path in value}
        if name == "state":
            return {
                path: {k: tf.TensorShape(s.template.batch_shape) for k, s in self.inferred.states[path].items()}
                for path in value
            }
        if name == "src_beams":
            return tf.TensorShape([])
        if name in ("scores", "ended", "lengths"):
            return tf.TensorShape([dim.size for dim in self.dims_of_hypotheses])
        if name in ("kept", "kept_states"):
            return tf.nest.map_structure(lambda _: tf.TensorShape([]), value)
        return value.shape

    def _go_on(self, variables: dict[str, Any]) -> Any:
        go_on = None if self.length is None else variables["i"] < self.length
        if not self.inputs.has_known_length:
            running = tf.logical_not(tf.reduce_all(variables["ended"]))
            go_on = running if go_on is None else tf.logical_and(go_on, running)
        return go_on

    def _body(self, variables: dict[str, Any]) -> dict[str, Any]:
        i = variables["i"]
        frame = StepFrame(self, i, variables)
        self.step_network = frame.network
        for path in self.inside:
            frame.make(path)
        with tf.control_dependencies(self._prints(frame) if self.inputs.cell.debug else []):
            next_i = i + 1
        result = {
            "i": next_i,
            "prev": {
                path: self._raw_prev(path, self._after_choices(frame.layers[path].output)) for path in self.prev_paths
            },
            "state": {path: self._raw_states(path, frame.layers[path]) for path in self.state_paths},
            "kept": {path: self._write(variables["kept"][path], i, path, frame) for path in self.kept},
            "kept_states": {
                path: {key: self._write_state(array, i, frame.layers[path], path, key) for key, array in arrays.items()}
                for path, arrays in variables["kept_states"].items()
            },
        }
        if self.inferred.beam is not None:
            result.update(self._search_variables(frame, variables))
        if "ended" in variables:
            end = self._fit(self._after_choices(frame.layers["end"].output), self.dims_of_hypotheses)
            before, lengths = (self._continued(frame, variables, name) for name in ("ended", "lengths"))
            ended = tf.logical_or(before, end)
            is_over = before if self.inputs.include_eos else ended
            result["ended"] = self._or_at_limit(ended, i + 1)
            result["lengths"] = lengths + tf.cast(tf.logical_not(is_over), tf.int32)
        return result

    def _or_at_limit(self, ended: Any, number: Any) -> Any:
        """
        :param ended: raw (B, beam), bool
        :param number: raw scalar, of frames
        :return: raw (B, beam), bool: the sequence has ended, or has as many frames as it may have
        """
        if self.limits is None:
            return ended
        number = rf.convert_to_tensor(number, dims=(), dtype="int32")
        return tf.logical_or(ended, self._fit(rf.compare_bc(self.limits, "<=", number), self.dims_of_hypotheses))

    def _prints(self, frame: StepFrame) -> list[Any]:
        """:return: operations that print the outputs of all layers of the step, one after the other"""
        prints: list[Any] = []
        for path in self.inside:
            output = frame.layers[path].output
            with tf.control_dependencies(prints[-1:]):
                name = f"{self.inputs.cell.prefix}{path}, step"
                prints.append(tf.print(name, frame.i, ":", output.raw_tensor, output_stream=sys.stdout))
        return prints

    # Search.

    def _normalized(self, scores: Tensor) -> Tensor:
        """:return: scores divided by the number of labels, where those of all hypotheses have grown to the same one"""
        if not self.inferred.beam.choice.length_normalization:
            return scores
        if self.inputs.cell.rec_layer.network.get_config().options.search_depends_on_batch:
            longest = self.inputs.time_dim.get_dim_value_tensor()
        else:
            longest = self.inputs.time_dim.get_size_tensor()
            beams = [dim for dim in longest.dims if dim.is_beam_dim()]
            longest = rf.reduce_max(longest, axis=beams) if beams else longest
        longest = rf.cast(longest, "float32")
        # The last label, which ends a sequence, counts like the others, whether it is part of the sequence or not.
        # `length_normalization_exponent` is about the comparison of hypotheses alone, recorded results say.
        return rf.combine_bc(scores, "/", longest if self.inputs.include_eos else longest + 1.0)

    def _search_variables(self, frame: StepFrame, variables: dict[str, Any]) -> dict[str, Any]:
        """:return: scores of the hypotheses after this step, and which ones of the step before they continue"""
        beam = self.beams.get(self.inferred.beam.dim)
        source = self.beams.source_indices(beam, self.inferred.prev_beam)
        batch_major = [*self.dims_of_hypotheses[:-1], beam.dim]
        return {
            "scores": beam.scores.copy_compatible_to_dims_raw(batch_major),
            "src_beams": variables["src_beams"].write(frame.i, source.copy_compatible_to_dims_raw(batch_major)),
        }

    def _after_choices(self, x: Tensor) -> Tensor:
        """:return: x for the hypotheses after the last choice of the step, as the next frame sees it"""
        beam = self.inferred.beam
        if beam is None:
            return x
        return as_beam_of_frame_before(self.beams.translate(x, self.beams.get(beam.dim)), self.inferred.prev_beam)

    def _continued(self, frame: StepFrame, variables: dict[str, Any], name: str) -> Any:
        """:return: raw value of a loop variable [B, beam] for the hypotheses after this step"""
        raw = variables[name]
        if self.inferred.beam is None:
            return raw
        x = Tensor(name, self.dims_of_hypotheses, str(raw.dtype.name), raw_tensor=raw)
        return self._fit(self._after_choices(x), self.dims_of_hypotheses)

    @staticmethod
    def _fit(x: Tensor, dims: Sequence[Dim]) -> Any:
        """:return: raw tensor with these dims; values are repeated along those that x does not have"""
        x = rf.expand_to(x, dims)
        return x.copy_compatible_to_dims_raw(dims)

    def _write(self, array: Any, i: Any, path: str, frame: StepFrame) -> Any:
        kept = self.kept[path]
        layer = frame.layers[path]
        value = layer.output_before_activation.before if kept.is_before_activation else layer.output
        return array.write(i, self._fit(self._of_last_beam(value), kept.template.dims))

    def _write_state(self, array: Any, i: Any, layer: LayerBase, path: str, key: str) -> Any:
        return array.write(i, self._fit(self._of_last_beam(layer.new_states[key]), self.kept_states[path][key].dims))

    def _of_last_beam(self, x: Tensor) -> Tensor:
        x = self.inputs.cell.seen_from_outside(x)
        beam = self.inferred.beam
        return x if beam is None else self.beams.translate(x, self.beams.get(beam.dim))

    # What goes from frame to frame.

    def _initial_variables(self) -> dict[str, Any]:
        variables: dict[str, Any] = {
            "i": tf.constant(0, dtype=tf.int32),
            "prev": {path: self._raw_prev(path, self.before.initial_output(path)) for path in self.prev_paths},
            "state": {path: self._initial_states(path) for path in self.state_paths},
            "kept": {
                path: new_array(kept.template, self.length if self.inputs.has_known_length else None)
                for path, kept in self.kept.items()
            },
            "kept_states": {
                path: {
                    key: new_array(template, self.length if self.inputs.has_known_length else None)
                    for key, template in parts.items()
                }
                for path, parts in self.kept_states.items()
                if parts
            },
        }
        dims = self.dims_of_hypotheses
        if self.inputs.cell.has_end:
            ended = rf.full(dims=dims, fill_value=False, dtype="bool").raw_tensor
            variables["ended"] = self._or_at_limit(ended, 0)
            variables["lengths"] = rf.full(dims=dims, fill_value=0, dtype="int32").raw_tensor
        if self.inferred.prev_beam is not None:
            # There is one hypothesis, in the first place; the others cannot be continued.
            is_first = rf.compare(rf.range_over_dim(self.inferred.prev_beam), "==", 0)
            scores = rf.where(is_first, 0.0, float("-inf"))
            variables["scores"] = self._fit(scores, dims)
            template = Tensor("src_beams", dims=dims, dtype="int32")
            variables["src_beams"] = new_array(template, self.length if self.inputs.has_known_length else None)
        return variables

    def _raw_prev(self, path: str, output: Tensor) -> Any:
        return self._fit(output, self.inferred.prev[path].dims)

    def _raw_states(self, path: str, layer: LayerBase) -> dict[str, Any]:
        states = self.inferred.states[path]
        return {k: self._fit(self._after_choices(layer.new_states[k]), s.template.dims) for k, s in states.items()}

    def _initial_states(self, path: str) -> dict[str, Any]:
        layer = self.before.layer_for_parameters(path)
        result = {}
        for key, state in self.inferred.states[path].items():
            if isinstance(state.initial, InitialOutput):
                value = self.before.initial_output(path, state.template)
            else:
                value = initial_value(state.initial, state.template, layer=layer, get_layer=self.before.get_layer)
            self.initial_states.setdefault(path, {})[key] = value
            result[key] = value.copy_compatible_to_dims_raw(state.template.dims)
        return result

    # What the frames read.

    def _make_reads(self) -> dict[str, Callable[[Any], Tensor]]:
        """:return: for each thing that a frame reads, the function from its number to the slice"""
        reads: dict[str, Callable[[Any], Tensor]] = {}
        time_dim = self.inputs.time_dim
        if self.inputs.source is not None:
            reads["data:source"] = unstacked(self.inputs.source, time_dim)
        edges = {edge for path in self.inside for edge in self.inferred.edges.get(path, ())}
        for edge in sorted(edges, key=str):
            placement = self.plan.placements.get(edge.path)
            if edge.kind == "same" and placement is not None and placement.place == "before":
                reads[str(edge)] = unstacked(self.before.make(edge.path).output, time_dim)
            elif edge.kind == "prev" and (placement.place == "before" if placement else edge.path.startswith("data")):
                reads[str(edge)] = unstacked(self.before.prev_output(edge.path), time_dim)
        return reads

    def extern_data_of_step(self, key: str, data: Tensor, i: Any) -> Tensor:
        """:return: frame of data of the network around, or all of it if it does not have the dim of the loop"""
        data = self.inputs.cell.rec_layer.data_of_frames(key, data, self.inputs.time_dim)
        if self.inputs.time_dim not in data.dims:
            return data
        return unstacked(self.inputs.cell.in_order(data), self.inputs.time_dim)(i)

    # What is kept for the outside.

    def _states_to_keep(self, path: str) -> dict[str, Tensor]:
        """:return: templates of the parts of the hidden state which have to be known of all frames, by name"""
        names = hidden_state_names(path, self.inputs.cell.unit, self.inferred.states[path])
        is_asked_for = path in self.inputs.cell.asked_for_states
        return {
            key: self._template_to_keep(state.template)
            for key, state in self.inferred.states[path].items()
            if (is_asked_for and key in names) or isinstance(state.initial, KeptInitial)
        }

    def _kept_layers(self) -> dict[str, KeptLayer]:
        """:return: what has to be known of all frames, by path"""
        used = {
            edge.path
            for path in self.plan.at("after")
            for edge in self.inferred.edges.get(path, ())
            if edge.kind in ("same", "prev")
        }
        used |= {target for path in self.inside for target in self._targets_in_loop(self.inferred.layers[path])}
        kept = {}
        for path in self.inside:
            layer = self.inferred.layers[path]
            is_wanted = path in self.inputs.cell.wanted and not (path == "end" and not layer.is_output_layer())
            goes_on = path in self.prev_paths and is_word(layer._initial_output)
            if is_wanted or goes_on or path in used:
                act = layer.output_before_activation
                is_before = act is not None and act.before is not None
                template = act.before if is_before else layer.output
                kept[path] = KeptLayer(path, layer, self._template_to_keep(template), is_before)
        return kept

    def _targets_in_loop(self, layer: LayerBase) -> list[str]:
        """:return: paths of the layers of the time step which the loss of the layer compares with"""
        targets = layer._target_layers.values() if layer.loss is not None else ()
        paths = [self.before.path_of(target.get_absolute_name()) for target in targets]
        return [path for path in paths if path is not None]

    def _template_to_keep(self, template: Tensor) -> Tensor:
        """:return: template, with the beam of the last choice, behind the batch"""
        template = self.inputs.cell.seen_from_outside(template)
        beam = self.inferred.beam
        own = self.inputs.cell.rec_layer.network.beams.of(template)
        if beam is None or own is None or own.is_kept:
            return template.copy_template()
        template = as_beam_of_frame_before(template, beam.dim)
        batch = [dim for dim in template.dims if dim.is_batch_dim()]
        order = [*batch, beam.dim]
        return template.copy_template().copy_transpose([*order, *(d for d in template.dims if d not in order)])

    def _length(self, limit: int | Tensor | None) -> Any:
        """:return: (largest) number of frames, as number or raw scalar; None if it is not known"""
        if self.inputs.has_known_length:
            return self.inputs.time_dim.get_dim_value()
        if not isinstance(limit, Tensor):
            return limit
        return (rf.reduce_max(limit, axis=limit.dims) if limit.dims else limit).raw_tensor
