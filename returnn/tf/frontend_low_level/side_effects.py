"""
Operations that have to run although nobody asks for their result: assignments to parameters, and assertions.

In a graph, an operation runs only if a fetched value depends on it. So what has an effect is noted with its graph, and

- in the body of a loop or the branch of a condition, the results are tied to it, so that it runs there, in each round;
- in the outermost graph, whoever runs a step fetches it: it is in the collection `UPDATE_OPS`.

Imperative code says in which order a parameter is read and written. Therefore a write runs after all reads which the
graph has already, and what reads the parameter later runs after the write.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

_ATTRIBUTE = "_returnn_side_effects"
_READERS = {
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "While",
    "StatelessWhile",
    "If",
    "StatelessIf",
    "Case",
    "PartitionedCall",
    "StatefulPartitionedCall",
}


@dataclass
class _Effects:
    """The effects in one graph."""

    ops: list[tf.Operation] = field(default_factory=list)
    writes: dict[int, tuple[tf.Variable, tf.Operation]] = field(default_factory=dict)  # last write, by id of variable
    values: dict[int, tf.Tensor] = field(default_factory=dict)  # what was read after the last write


def add_effect(op: tf.Operation) -> None:
    """Notes an operation of the current graph that has to run."""
    if tf.executing_eagerly():
        return
    _effects().ops.append(op)
    graph = tf.compat.v1.get_default_graph()
    if getattr(graph, "outer_graph", None) is None:
        graph.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, op)


def write(variable: tf.Variable, make_op: Callable[[], tf.Operation]) -> None:
    """
    :param variable: is written to ...
    :param make_op: ... by the operation that this makes
    """
    if tf.executing_eagerly():
        make_op()
        return
    effects = _effects()
    before = _reads(variable)
    if id(variable) in effects.writes:
        before.append(effects.writes[id(variable)][1])
    with tf.control_dependencies(before):
        op = make_op()
    _note_write(variable, op)
    add_effect(op)


def read(variable: tf.Variable) -> Any:
    """:return: the value after all that was written until now in the current graph; otherwise the variable itself"""
    effects = None if tf.executing_eagerly() else _effects()
    if effects is None or id(variable) not in effects.writes:
        return variable
    if id(variable) not in effects.values:
        with tf.control_dependencies([effects.writes[id(variable)][1]]):
            effects.values[id(variable)] = variable.read_value()
    return effects.values[id(variable)]


class ControlFlow:
    """
    A loop or condition that is being built. It runs after what was written before it:

        with ControlFlow() as region:
            results = tf.while_loop(cond, lambda *args: region.tied(body(*args)), ...)
        region.finish(results[0].op)
    """

    def __init__(self) -> None:
        self._written: list[tf.Variable] = []
        self._has_effects = False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ControlFlow:
        before = [op for _, op in _effects().writes.values()]
        self._stack.enter_context(tf.control_dependencies(before))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def tied(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """
        :return: the results of a body or branch, computed after its effects, and after it has read what it writes, as
            the next round writes it again. To be called in there.
        """
        effects = _effects()
        if not effects.ops:
            return list(tensors)
        self._has_effects = True
        written = [variable for variable, _ in effects.writes.values()]
        self._written += written
        with tf.control_dependencies(effects.ops + [op for variable in written for op in _reads(variable)]):
            return [tf.identity(x) for x in tensors]

    def finish(self, op: tf.Operation) -> None:
        """
        Notes the effects of the bodies with the graph around.

        :param op: depends on the loop or condition
        """
        if self._has_effects:
            for variable in self._written:
                _note_write(variable, op)
            add_effect(op)


def _effects() -> _Effects:
    graph = tf.compat.v1.get_default_graph()
    effects = getattr(graph, _ATTRIBUTE, None)
    if effects is None:
        effects = _Effects()
        setattr(graph, _ATTRIBUTE, effects)
    return effects


def _note_write(variable: tf.Variable, op: tf.Operation) -> None:
    effects = _effects()
    effects.writes[id(variable)] = variable, op
    effects.values.pop(id(variable), None)


def _reads(variable: tf.Variable) -> list[tf.Operation]:
    handle = _handle_in(tf.compat.v1.get_default_graph(), variable.handle)
    return [] if handle is None else [op for op in handle.consumers() if op.type in _READERS]


def _handle_in(graph: Any, handle: tf.Tensor) -> tf.Tensor | None:
    """:return: what stands for the variable in the graph, None if nothing does"""
    if handle.graph is graph:
        return handle
    outer_graph = getattr(graph, "outer_graph", None)
    outer = None if outer_graph is None else _handle_in(outer_graph, handle)
    return next((inner for captured, inner in getattr(graph, "captures", ()) if captured is outer), None)
