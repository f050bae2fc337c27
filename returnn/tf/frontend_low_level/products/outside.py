"""Values in the body of a loop that are the same in all frames: what they are in the graph around it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations

_MIN_PACKED = 32  # rows and columns of a matrix that is packed
# Operations that can be made once more outside of the loop.
_SAME_VALUES = ("Cast", "ExpandDims", "Identity", "Pack", "Reshape", "SelectV2", "Squeeze", "Transpose")


def outside(x: Any, body: Any) -> tf.Tensor | None:
    """
    :param x: in the body of a loop
    :param body: its graph
    :return: the value in the graph around the loop; None if it is another one in each frame
    """
    if isinstance(x, tf.Variable):
        with _around(body):
            return x.read_value()
    if x.graph is not body:
        return x
    for outer, inner in body.captures:
        if inner is x:
            return outer
    op = x.op
    if op.control_inputs:
        return None
    if op.type == "Const":
        with _around(body):
            return tf.constant(tf.get_static_value(x))
    if op.type == "ReadVariableOp":
        handle = outside(op.inputs[0], body)
        with _around(body):
            return None if handle is None else tf.raw_ops.ReadVariableOp(resource=handle, dtype=x.dtype)
    if op.type not in _SAME_VALUES:
        return None
    inputs = [outside(value, body) for value in op.inputs]
    if any(value is None for value in inputs):
        return None
    attributes = {name: op.node_def.attr[name] for name in op.node_def.attr}
    with _around(body):
        new = body.outer_graph.create_op(op.type, inputs, [y.dtype for y in op.outputs], attrs=attributes)
        return new.outputs[x.value_index]


@contextlib.contextmanager
def _around(body: Any) -> Iterator[None]:
    """In it, operations go into the graph around the loop."""
    with body.outer_graph.as_default(), tf.control_dependencies(None):
        yield


def outside_of_all(x: Any, body: Any) -> tf.Tensor | None:
    """:return: as `outside`, of the outermost loop"""
    while x is not None and getattr(body, "outer_graph", None) is not None:
        x, body = outside(x, body), body.outer_graph
    return None if x is None or not is_outermost(x) else x


def is_outermost(x: tf.Tensor) -> bool:
    """:return: whether it is in no loop"""
    return getattr(x.graph, "outer_graph", None) is None


def computed_with(x: tf.Tensor, function: Callable[[tf.Tensor], Any]) -> Any:
    """:return: the result of the function, computed in the graph of x"""
    with x.graph.as_default(), tf.control_dependencies(None):
        return function(x)


def packed_matrix(matrix: tf.Tensor, *, transposed: bool = False) -> tf.Tensor | None:
    """
    :param matrix: (K, M)
    :param transposed: pack the transposed matrix
    :return: the matrix, packed for `packed_product`; None if that is not for it
    """
    if not is_outermost(matrix) or not has_operations(matrix.dtype) or min(matrix.shape) < _MIN_PACKED:
        return None
    kernel = "pack_transposed_matrix" if transposed else "pack_matrix"
    return computed_with(matrix, lambda x: get_operations().call(kernel, {"matrix": x})["packed"])
