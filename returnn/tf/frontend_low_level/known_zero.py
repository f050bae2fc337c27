"""Gradients of outputs that nothing depends on: TensorFlow gives zeros for them, which nobody has to add."""

from __future__ import annotations

import tensorflow as tf


def is_known_zero(x: tf.Tensor) -> bool:
    """:return: whether the graph says that all of it is 0"""
    if tf.executing_eagerly():
        return False
    if x.op.type == "Fill":
        return tf.get_static_value(x.op.inputs[1]) == 0
    return x.op.type in ("ZerosLike", "Zeros")
