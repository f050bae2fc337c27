"""The number of the first frame of a loop which counts on from one batch to the next."""

from __future__ import annotations

import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.loop.across_batches.kept_state import has_batches_before
from returnn.util.errors import ConfigError


class StepOffset:
    """How many frames the loop went over in this epoch before this batch: a variable that no checkpoint has."""

    def __init__(self, layer: LayerBase) -> None:
        """:param layer: the loop, which is not part of another one"""
        self.layer = layer
        if layer.network.is_inside_rec_layer():
            raise ConfigError(
                f"{layer.where()}: option 'use_global_rec_step_offset' is only possible for a loop that is not inside "
                "of another one."
            )
        self._variable: tf.Variable | None = None
        number = tf.constant(0)
        if has_batches_before():
            number = self._make_variable()
        self.number = Tensor("rec_step_offset", dims=(), dtype="int32", raw_tensor=number)

    def _make_variable(self) -> tf.Tensor:
        """:return: its value; 0 for the first batch of an epoch"""
        layer = self.layer
        with outermost_graph():
            name = f"{layer.get_absolute_name_scope_prefix()}rec_step_offset"
            self._variable = tf.Variable(0, dtype=tf.int32, trainable=False, name=name)
            is_first_batch = tf.equal(layer.network.get_epoch_step(), 0)
            return tf.where(is_first_batch, 0, self._variable.read_value())

    def count(self, num_frames: tf.Tensor) -> None:
        """:param num_frames: of this batch: scalar"""
        if self._variable is None:
            return
        number = self.number.raw_tensor
        with tf.control_dependencies([number]):
            update = self._variable.assign(number + num_frames)
        self.layer.network.register_post_control_dependencies([update])
