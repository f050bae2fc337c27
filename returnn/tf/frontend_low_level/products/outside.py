"""Values in the body of a loop that are the same in all frames: what they are in the graph around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    return _made_in(body.outer_graph, x, lambda y: y.graph is not body)


def outside_of_all(x: Any, body: Any) -> tf.Tensor | None:
    """:return: as `outside`, in the graph around all loops"""
    outermost = body
    while getattr(outermost, "outer_graph", None) is not None:
        outermost = outermost.outer_graph
    return _made_in(outermost, x, is_outermost)


def _made_in(graph: Any, x: Any, is_there: Callable[[tf.Tensor], bool]) -> tf.Tensor | None:
    """:return: the same value in this graph, as far as it follows from what is there"""
    with graph.as_default(), tf.control_dependencies(None):
        return _made(x, is_there)


def _made(x: Any, is_there: Callable[[tf.Tensor], bool]) -> tf.Tensor | None:
    if isinstance(x, tf.Variable):
        return x.read_value()
    if is_there(x):
        return x
    for outer, inner in x.graph.captures:
        if inner is x:
            return _made(outer, is_there)
    op = x.op
    if op.control_inputs:
        return None
    if op.type == "Const":
        return tf.constant(tf.get_static_value(x))
    if op.type == "ReadVariableOp":
        handle = _made(op.inputs[0], is_there)
        return None if handle is None else tf.raw_ops.ReadVariableOp(resource=handle, dtype=x.dtype)
    if op.type not in _SAME_VALUES:
        return None
    inputs = [_made(value, is_there) for value in op.inputs]
    if any(value is None for value in inputs):
        return None
    attributes = {name: op.node_def.attr[name] for name in op.node_def.attr}
    new = tf.compat.v1.get_default_graph().create_op(op.type, inputs, [y.dtype for y in op.outputs], attrs=attributes)
    return new.outputs[x.value_index]


def transposed(x: Any, perm: Sequence[int]) -> tf.Tensor:
    """
    Like `tf.transpose`. In a loop, what is the same in all frames is transposed outside of it.

    :param x: any tensor
    :param perm: axes of x
    """
    body = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    value = outside(x, body) if type(body).__name__ == "WhileBodyFuncGraph" else None
    if value is None:
        return tf.transpose(x, list(perm))
    return computed_with(value, lambda y: transposed(y, perm))


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
