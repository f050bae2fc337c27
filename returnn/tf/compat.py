"""Documented path: TensorFlow's own modules of compatibility, as old configs import them."""

import tensorflow as tf

from returnn.tf.util.graph_mode import use_graph_mode

v1 = tf.compat.v1
v2 = tf.compat.v2


def executing_eagerly() -> bool:
    """:return: whether operations run at once, rather than being put into a graph"""
    return tf.executing_eagerly()


__all__ = ["executing_eagerly", "v1", "v2"]

use_graph_mode()
