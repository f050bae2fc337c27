"""Which loop or condition an operation belongs to, and how to leave it for some operations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph as ControlFlowFuncGraph

from returnn.compat.tf_util.graph_inspect import get_root_graph

tf1 = tf.compat.v1


def has_control_flow_context(x: tf.Tensor | tf.Operation | int | list[Any] | None) -> bool:
    """:return: whether it, or some of the tensors in a list, is part of a loop or condition"""
    if isinstance(x, (list, tuple)):
        return any(has_control_flow_context(entry) for entry in x)
    op = getattr(x, "op", x)
    if not isinstance(op, tf.Operation):
        return False
    return isinstance(op.graph, ControlFlowFuncGraph) or op._get_control_flow_context() is not None


def has_current_control_flow_context() -> bool:
    """:return: whether the operations that are made now are part of a loop or condition"""
    graph = tf1.get_default_graph()
    return isinstance(graph, ControlFlowFuncGraph) or graph._get_control_flow_context() is not None


@contextlib.contextmanager
def same_control_flow_ctx(x: Any) -> Iterator[None]:
    """
    In it, operations become part of the loop or condition that a tensor is in.

    :param x: tensor, or several
    """
    graphs = [y.graph for y in tf.nest.flatten(x) if isinstance(y, (tf.Tensor, tf.Operation))]
    depths = {graph: _depth(graph) for graph in graphs}
    target = max(depths, key=lambda graph: depths[graph], default=None)
    if target is None or target is tf1.get_default_graph():
        yield
        return
    with target.as_default(), tf.control_dependencies(None):
        yield


@contextlib.contextmanager
def default_control_flow_ctx() -> Iterator[None]:
    """In it, operations are outside of all loops and conditions."""
    with get_root_graph().as_default(), tf.control_dependencies(None):
        yield


def op_in_right_control_flow_context(op: tf.Operation | tf.Tensor) -> bool:
    """:return: whether an operation is in the loop or condition that operations are made in now, or around it"""
    graph: Any = tf1.get_default_graph()
    while graph is not None:
        if op.graph is graph:
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def _depth(graph: Any) -> int:
    outer = getattr(graph, "outer_graph", None)
    return 0 if outer is None else 1 + _depth(outer)
