"""Documented path: TensorFlow's own modules of compatibility, as old configs import them."""

import tensorflow as tf

v1 = tf.compat.v1
v2 = tf.compat.v2


def executing_eagerly() -> bool:
    """:return: whether operations run at once, rather than being put into a graph"""
    return tf.executing_eagerly()


__all__ = ["executing_eagerly", "v1", "v2"]
