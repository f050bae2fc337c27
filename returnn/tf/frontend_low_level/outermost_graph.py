"""What is made once for a whole graph: parameters, placeholders, constants."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1
PLACEHOLDERS_SCOPE = "extern_data/placeholders/"  # name scope of what a network makes to be fed


@contextlib.contextmanager
def outermost_graph() -> Iterator[tf.Graph]:
    """
    In it, operations go into the graph around all loops and conditions, under the current name scope and without
    control dependencies. In eager code, nothing changes.

    `tf.init_scope` goes further: in a process that has run eager code before, it leaves the graph altogether.
    """
    graph: Any = tf1.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    with _in_graph(graph):
        yield graph


def graph_around(tensor: tf.Tensor) -> contextlib.AbstractContextManager[None]:
    """:return: context, where operations go into the graph of the tensor, otherwise as in `outermost_graph`"""
    return contextlib.nullcontext() if tf.executing_eagerly() else _in_graph(tensor.graph)


@contextlib.contextmanager
def _in_graph(graph: Any) -> Iterator[None]:
    inner = tf1.get_default_graph()
    with contextlib.ExitStack() as stack:
        if graph is not inner:
            scope = inner.get_name_scope()
            stack.enter_context(graph.as_default())
            stack.enter_context(tf1.name_scope(f"{scope}/" if scope else None))
        stack.enter_context(tf.control_dependencies(None))
        yield


def is_computed_from_own_input(tensor: tf.Tensor) -> bool:
    """:return: whether it is computed in the outermost graph, from constants and placeholders that are of no network"""
    return _is_computed_without(lambda op: op.name.startswith(PLACEHOLDERS_SCOPE), tensor)


def is_computed_from_constants(tensor: tf.Tensor) -> bool:
    """:return: whether it is computed in the outermost graph, and nothing has to be fed for it"""
    return _is_computed_without(lambda op: op.type in ("Placeholder", "PlaceholderWithDefault"), tensor)


def _is_computed_without(is_one: Callable[[tf.Operation], bool], tensor: tf.Tensor) -> bool:
    if tf.executing_eagerly() or getattr(tensor.graph, "outer_graph", None) is not None:
        return False
    todo, seen = [tensor.op], set()
    while todo:
        op = todo.pop()
        if op.name in seen:
            continue
        if is_one(op) or op._get_control_flow_context() is not None:
            return False
        seen.add(op.name)
        todo.extend(x.op for x in op.inputs)
    return True
