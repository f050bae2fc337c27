"""
Matrix products of a column and a row, such as those of a linear layer whose input has one feature.

TensorFlow's matrix product packs its operands for sums over many entries, and takes several times as long as a
multiplication for a sum of one. Backward, there are sums over many entries, so products of matrices are right there.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

_GRADIENT = "ReturnnOuterProduct"


def is_outer_product(a: Any, b: Any) -> bool:
    """:return: whether these are a column (N, 1) and a row (1, M)"""
    return bool(a.shape.rank == b.shape.rank == 2 and a.shape[1] == b.shape[0] == 1)


def outer_product(a: Any, b: Any) -> tf.Tensor:
    """
    :param a: (N, 1)
    :param b: (1, M)
    :return: (N, M)
    """
    if tf.executing_eagerly():
        return tf.multiply(a, b)
    with tf1.get_default_graph().gradient_override_map({"Mul": _GRADIENT}):
        return tf.raw_ops.Mul(x=tf.convert_to_tensor(a), y=tf.convert_to_tensor(b))


def operands_of_outer_product(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor] | None:
    """:return: what `outer_product` has computed it of; None if it is something else"""
    if x.op.type != "Mul" or "_gradient_op_type" not in x.op.node_def.attr:
        return None
    if x.op.get_attr("_gradient_op_type") != _GRADIENT.encode():
        return None
    a, b = x.op.inputs
    return a, b


@tf.RegisterGradient(_GRADIENT)
def _gradient(op: tf.Operation, gradient: tf.Tensor) -> list[tf.Tensor]:
    a, b = op.inputs
    return [tf.matmul(gradient, b, transpose_b=True), tf.matmul(a, gradient, transpose_a=True)]
