"""
Values that are not kept for the gradient, but computed again when it needs them (Chen et al. 2016, "Training deep nets
with sublinear memory cost").

What is made in `gradient_checkpoint_scope` is copied when its gradient is made, and the gradient is computed from the
copies. They wait for the gradient that arrives at them, so that TensorFlow has forgotten the first values by then.
Inputs of the scope are kept. So are loops, and random numbers that come from a state of the session, as they would be
others; those of layers follow from a seed, and are the same again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from returnn.tf.util.copy_op import copy_op

_COLLECTION = "returnn_gradient_checkpoint_scopes"
_LOOPS = {"While", "StatelessWhile", "If", "StatelessIf", "Case", "PartitionedCall", "StatefulPartitionedCall"}
_FED = {"Placeholder", "PlaceholderWithDefault"}  # who feeds them does not know copies
_KEPT_TYPES = _LOOPS | _FED
_numbers = itertools.count()


class _Scope:
    """The operations of a scope."""

    def __init__(self) -> None:
        self.ops: list[tf.Operation] = []
        self.kept: set[tf.Operation] = set()
        self.is_prepared = False
        self.copies: dict[tf.Operation, tf.Operation] = {}

    def prepare(self) -> None:
        """From now on, gradients of the operations are made from copies."""
        if self.is_prepared:
            return
        self.is_prepared = True
        self.ops = [op for op in self.ops if op not in self.kept and _can_be_computed_again(op)]
        inside = set(self.ops)
        for op in self.ops:
            function = _gradient_function_of(op)
            if function is not None:
                _set_gradient(op, self._gradient_from_copies(function, inside))

    def _gradient_from_copies(self, function: Callable[..., Any], inside: set[tf.Operation]) -> Callable[..., Any]:
        def gradient(op: tf.Operation, *upstream: Any) -> Any:
            arrived = [x for x in upstream if x is not None]
            with op.graph.as_default(), tf.control_dependencies(tf.nest.flatten(arrived, expand_composites=True)):
                copy = self._copy(op, inside)
            return function(copy, *upstream)

        return gradient

    def _copy(self, last: tf.Operation, inside: set[tf.Operation]) -> tf.Operation:
        """:return: of the operation; of what it depends on in the scope, copies are made as well"""
        for op in _in_order(last, inside):
            if op not in self.copies:
                inputs = [self.copies[x.op].outputs[x.value_index] if x.op in inside else x for x in op.inputs]
                copy = copy_op(op, inputs=inputs, name=f"{op.name}_again")
                self.copies[op] = copy
        return self.copies[last]


@contextlib.contextmanager
def gradient_checkpoint_scope() -> Iterator[None]:
    """What is made in here is computed again for the gradient, see `prepare_gradient_checkpointing`."""
    graph = tf.compat.v1.get_default_graph()
    begin = len(graph.get_operations())
    scope = _Scope()
    scopes = _scopes_of(graph)
    scopes.append(scope)
    try:
        yield
    finally:
        scope.ops = list(graph.get_operations()[begin:])


@contextlib.contextmanager
def gradient_checkpoint_exclude_scope() -> Iterator[None]:
    """What is made in here, inside of a `gradient_checkpoint_scope`, is kept."""
    graph = tf.compat.v1.get_default_graph()
    begin = len(graph.get_operations())
    try:
        yield
    finally:
        for scope in _scopes_of(graph):
            scope.kept.update(graph.get_operations()[begin:])


def prepare_gradient_checkpointing() -> None:
    """Has to be called after the layers were made, and before gradients are."""
    for scope in _scopes_of(tf.compat.v1.get_default_graph()):
        scope.prepare()


def _scopes_of(graph: tf.Graph) -> list[_Scope]:
    return graph.get_collection_ref(_COLLECTION)


def _can_be_computed_again(op: tf.Operation) -> bool:
    if op.type in _KEPT_TYPES or op._get_control_flow_context() is not None:
        return False
    return not (op.op_def.is_stateful or any(x.dtype in (tf.resource, tf.variant) for x in op.outputs))


def _gradient_function_of(op: tf.Operation) -> Callable[..., Any] | None:
    """:return: as it is registered; None if there is none, or if it is that of `tf.custom_gradient`"""
    if not op.inputs or "_gradient_op_type" in op.node_def.attr:
        return None  # a gradient by `tf.custom_gradient` knows only the tensors that it was made with
    try:
        return ops.get_gradient_function(op)
    except LookupError:
        return None


def _set_gradient(op: tf.Operation, function: Callable[..., Any]) -> None:
    name = f"ReturnnGradientCheckpoint{next(_numbers)}"
    tf.RegisterGradient(name)(function)
    op._set_attr("_gradient_op_type", tf.compat.v1.AttrValue(s=name.encode()))


def _in_order(last: tf.Operation, inside: set[tf.Operation]) -> Sequence[tf.Operation]:
    """:return: what the operation depends on in the scope, and itself at last, each behind its inputs"""
    order: dict[tf.Operation, None] = {}
    stack = [(last, False)]
    while stack:
        op, has_inputs = stack.pop()
        if has_inputs:
            order[op] = None
        elif op not in order:
            stack.append((op, True))
            stack += [(x.op, False) for x in op.inputs if x.op in inside and x.op not in order]
    return list(order)
