"""
One step of a loop as a graph of its own, for decoders that have the loop themselves.

The variables of the loop, which `while_loop` hands from frame to frame, and what a frame reads of the outside, such as
the encoder, are variables of the session: an operation gives them their first values, and another one goes on by a
frame. Frames are not collected: the outputs of each are there after its step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.loop_counter import set_loop_counter
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.frames import FrameRead, SequenceFrame, StepFrame, make_reads
from returnn.tf.layers.loop.kept_frames import choose_kept
from returnn.tf.layers.loop.loop_length import find_length
from returnn.tf.layers.loop.loop_variables import LoopLayout, LoopVariables, make_layout
from returnn.tf.layers.loop.next_frame import make_initial_states, make_initial_variables, make_next_variables
from returnn.tf.layers.loop.while_loop import goes_on
from returnn.util.errors import ConfigError

tf1 = tf.compat.v1

_SCOPE = "rec_step"
_ARRAYS = ("kept", "kept_states")  # variables of the loop with all frames so far, which a single step has not
_I = "i"
_GOES_ON = "goes_on"
_KEEP_THEIR_VALUE = ("Const", "ReadVariableOp")  # operations outside of the loop that each step can run again


@dataclass(frozen=True)
class StepGraph:
    """Names in the graph."""

    init_op: str  # gives the variables their values before the first frame
    step_op: str  # one frame
    i: str  # number of the frame: a variable, or a placeholder
    state_vars: Mapping[str, str]  # what it is -> variable
    outputs: Mapping[str, str]  # layer, or "loop:" and variable of the loop, or "loop:goes_on" -> tensor of this frame
    dims: Mapping[str, str]  # of the outputs, in words

    def as_dict(self) -> dict[str, Any]:
        """:return: for JSON"""
        return {key: dict(value) if isinstance(value, Mapping) else value for key, value in vars(self).items()}


def make_step_graph(compiled: CompiledLoop, before: SequenceFrame, *, counts_in_graph: bool) -> StepGraph:
    """
    Adds it to the current graph, where the whole loop is already.

    :param compiled: the loop
    :param before: what is computed before it
    :param counts_in_graph: whether the number of the frame is a variable, too; otherwise it has to be fed
    :raises ConfigError: if there is nothing inside of the loop
    """
    if not compiled.plan.at("inside"):
        raise ConfigError(
            f"{compiled.inputs.layer.where()}: all of it is computed outside of the loop, so there are no steps."
        )
    layout = make_layout(compiled, choose_kept(compiled), find_length(compiled))
    initial = make_initial_variables(layout, before, make_initial_states(layout, before))
    values = {name: value for name, value in initial.as_dict().items() if name not in _ARRAYS}
    if "src_beams" in values:
        values["src_beams"] = tf.zeros_like(values["scores"], dtype=tf.int32)
    body = _Body(layout, make_reads(compiled, before), values)
    function = tf.function(body, autograph=False)
    specs = [tf.TensorSpec(None, x.dtype) for x in body.flat_initial]
    graph = function.get_concrete_function(*specs).graph
    with tf1.variable_scope(_SCOPE), tf.name_scope(f"{_SCOPE}/"):
        return _Emitter(body, graph, counts_in_graph=counts_in_graph).emit()


class _LastFrame:
    """Stands for an array of all frames, and has the last one alone."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def write(self, i: Any, value: Any) -> _LastFrame:
        """:return: with this frame"""
        return _LastFrame(value)

    def read(self, i: Any) -> Any:
        """:return: the frame before"""
        return self.value


class _Body:
    """A frame, as function of the variables, and of what it captures."""

    def __init__(self, layout: LoopLayout, reads: Mapping[str, FrameRead], initial: Mapping[str, Any]) -> None:
        self.layout = layout
        self.reads = reads
        self.initial = dict(sorted(initial.items()))
        self.output_names: list[str] = []
        self.dims: dict[str, str] = {}

    @property
    def flat_initial(self) -> list[tf.Tensor]:
        """Values before the first frame."""
        return tf.nest.flatten(self.initial)

    @property
    def names(self) -> list[str]:
        """Of these, in the same order, such as "prev/output"."""
        return ["/".join(path) for path in _paths(self.initial)]

    def __call__(self, *flat: tf.Tensor) -> list[tf.Tensor]:
        """:return: new values, whether there is another frame, then outputs"""
        values = tf.nest.pack_sequence_as(self.initial, flat)
        for raw, known in zip(flat, self.flat_initial, strict=True):
            raw.set_shape(known.shape)
        set_loop_counter(values[_I])
        kept = self.layout.kept
        arrays: dict[str, Any] = {
            "kept": {path: _LastFrame() for path in kept.layers},
            "kept_states": {path: {key: _LastFrame() for key in parts} for path, parts in kept.states.items()},
        }
        if "src_beams" in values:
            arrays["src_beams"] = _LastFrame(values["src_beams"])
        variables = LoopVariables(**{**values, **arrays})
        compiled = self.layout.compiled
        beam = self.layout.beam_before_frame(variables)
        frame = StepFrame(compiled, self.reads, variables, self.layout.hypotheses, beam)
        for path in compiled.layers_to_make("inside"):
            frame.make(path)
        after = make_next_variables(self.layout, frame, variables).as_dict()
        if "src_beams" in after:
            after["src_beams"] = after["src_beams"].value
        goes_on_ = goes_on(self.layout, after)
        outputs = {path: frame.layers[path].output for path in compiled.layers_to_make("inside")}
        outputs = {path: x for path, x in outputs.items() if isinstance(x.raw_tensor, tf.Tensor)}
        self.output_names = list(outputs)
        self.dims = {path: str(x.dims) for path, x in outputs.items()}
        new = tf.nest.flatten({name: after[name] for name in self.initial})
        return [*map(tf.identity, new), tf.identity(goes_on_), *(x.raw_tensor for x in outputs.values())]


class _Emitter:
    """Puts the traced frame into the graph, with variables for all that it gets."""

    def __init__(self, body: _Body, graph: Any, *, counts_in_graph: bool) -> None:
        self._body = body
        self._graph = graph  # of the function
        self._counts_in_graph = counts_in_graph
        self._init_ops: list[Any] = []
        self._reads: list[tf.Tensor] = []
        self._handles: dict[str, tf.Tensor] = {}

    def emit(self) -> StepGraph:
        """:return: names of what is in the graph now"""
        names = self._body.names
        num_inputs = len(names)
        arguments = [self._state(name, x) for name, x in zip(names, self._body.flat_initial, strict=True)]
        captured = [self._captured(i, outer) for i, (outer, _) in enumerate(self._graph.captures)]
        inputs = [x.name for x in self._graph.inputs]
        assert len(inputs) == num_inputs + len(captured)
        results = tf1.import_graph_def(
            self._graph.as_graph_def(),
            input_map=dict(zip(inputs, [*arguments, *captured], strict=True)),
            return_elements=[x.name for x in self._graph.outputs],
            name="frame",
        )
        new, goes_on_, outputs = results[:num_inputs], results[num_inputs], results[num_inputs + 1 :]
        with tf.control_dependencies([*self._reads, *new]):
            assigned = [
                tf.raw_ops.AssignVariableOp(resource=self._handles[name], value=value)
                for name, value in zip(names, new, strict=True)
                if name in self._handles
            ]
        init_op, step_op = tf.group(*self._init_ops, name="init"), tf.group(*assigned, name="step")
        index = names.index(_I)
        variables = {name: value.name for name, value in zip(names, new, strict=True)} | {_GOES_ON: goes_on_.name}
        return StepGraph(
            init_op=init_op.name,
            step_op=step_op.name,
            i=self._handles[_I].op.name if self._counts_in_graph else arguments[index].name,
            state_vars={name: handle.op.name for name, handle in self._handles.items()},
            outputs={
                **{f"loop:{name}": tensor for name, tensor in variables.items()},
                **{name: x.name for name, x in zip(self._body.output_names, outputs, strict=True)},
            },
            dims=self._body.dims,
        )

    def _state(self, name: str, initial: tf.Tensor) -> tf.Tensor:
        """:return: value before the frame"""
        if name == _I and not self._counts_in_graph:
            return tf1.placeholder(initial.dtype, (), name=_I)
        return self._variable(name, initial)

    def _captured(self, number: int, outer: tf.Tensor) -> tf.Tensor:
        """:return: what stands for a tensor outside of the loop: itself, or a variable with its value"""
        if outer.dtype == tf.resource or outer.op.type in _KEEP_THEIR_VALUE:
            return outer
        if outer.dtype != tf.variant:
            return self._variable(f"base/{number}_{outer.op.name}", outer)
        if outer.op.type != "TensorListFromTensor":
            raise ConfigError(
                f"{self._body.layout.compiled.inputs.layer.where()}: a step reads {outer.op.name!r}, which cannot be"
                " kept in a variable."
            )
        frames, shape = outer.op.inputs
        kept = self._variable(f"base/{number}_{frames.op.name}", frames)
        shape = shape if shape.op.type == "Const" else self._variable(f"base/{number}_shape", shape)
        return tf.raw_ops.TensorListFromTensor(tensor=kept, element_shape=shape)

    def _variable(self, name: str, initial: tf.Tensor) -> tf.Tensor:
        """:return: its value"""
        safe = re.sub(r"[^\w./-]", "_", name)
        unique = f"{_SCOPE}/state/{safe}"
        handle = tf.raw_ops.VarHandleOp(dtype=initial.dtype, shape=None, shared_name=unique, name=f"state/{safe}")
        self._handles[name] = handle
        self._init_ops.append(tf.raw_ops.AssignVariableOp(resource=handle, value=initial))
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=initial.dtype)
        value.set_shape(initial.shape)
        self._reads.append(value)
        return value


def _paths(structure: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """:return: keys of each leaf, in the order of `tf.nest.flatten`"""
    if isinstance(structure, Mapping):
        return [found for key in sorted(structure) for found in _paths(structure[key], (*path, key))]
    return [path]
