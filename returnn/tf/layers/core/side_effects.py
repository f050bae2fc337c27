"""Layers that are there for what they do, and not for their output: they print, write to a file, change a variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.tf.layers.core.layer_base import LayerBase


def in_each_step(layer: LayerBase, raw: tf.Tensor, operations: Sequence[Any]) -> tf.Tensor:
    """
    :param layer: makes the operations
    :param raw: tensor
    :param operations: have an effect. They run in each step, also if nothing needs the output. Only where they are in a
        loop or a condition of TensorFlow, these have to need it
    :return: raw, after these operations
    """
    if not tf.compat.v1.get_default_graph().building_function:
        layer.network.register_post_control_dependencies(operations)
    with tf.control_dependencies(operations):
        return tf.identity(raw)
