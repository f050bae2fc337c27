"""A state that is kept from one batch to the next, for sequences which go on in the next batch."""

from __future__ import annotations

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.layers.layer_base import LayerBase
from returnn.util.errors import ConfigError

WORDS = ("keep_over_epoch", "keep_over_epoch_no_init")


class KeptState:
    """One part of a state, as variable that does not go into checkpoints. A batch of another size starts from 0."""

    def __init__(self, layer: LayerBase, name: str, word: str) -> None:
        """
        :param layer: whose state it is
        :param name: of the part
        :param word: "keep_over_epoch": each epoch starts from 0; "keep_over_epoch_no_init": only the first one
        """
        self.layer = layer
        self.name = name
        self.is_reset = word == "keep_over_epoch"
        self.variable: tf.Variable | None = None
        if layer.network.get_inside_rec_time_dim(inside_loop=False) is not None:
            raise ConfigError(f"{layer.where()}: {word!r} is not possible inside of a loop.")

    def initial(self, feature: Dim) -> Tensor:
        """:return: [B, feature]: state after the last frame of the batch before"""
        out = Tensor(self.name, dims=[batch_dim, feature], dtype="float32", feature_dim=feature)
        if rf.get_selected_backend() == "template":
            return out
        size = feature.dimension
        with self.layer.var_creation_scope(), outermost_graph():
            self.variable = tf.Variable(
                tf.zeros([0, size]), shape=tf.TensorShape([None, size]), trainable=False, name=f"kept_{self.name}"
            )
        before = self.variable.read_value()
        batch_size = batch_dim.get_dim_value()
        is_usable = tf.equal(tf.shape(before)[0], batch_size)
        if self.is_reset:
            is_usable = tf.logical_and(is_usable, tf.not_equal(self.layer.network.get_epoch_step(), 0))
        raw = tf.cond(is_usable, lambda: before, lambda: tf.zeros([batch_size, size]))
        raw.set_shape([None, size])
        out.raw_tensor = raw
        return out

    def keep(self, last: Tensor, initial: Tensor) -> None:
        """
        :param last: state after the last frame
        :param initial: what `initial` returned, which is read before
        """
        assert self.variable is not None
        raw = last.copy_compatible_to_dims_raw(initial.dims)
        with tf.control_dependencies([initial.raw_tensor]):
            self.layer.network.register_post_control_dependencies([self.variable.assign(raw)])
