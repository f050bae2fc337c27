"""Whether targets of CTC fit into the frames: each label needs one, and two of the same label a blank between them."""

from __future__ import annotations

import tensorflow as tf

from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.floors.layer_targets import LayerTargets


def check_targets_fit(
    layer: LayerTargets, target: Tensor, target_time: Dim, frames: Dim, *, label_loop: bool, where: str, hint: str
) -> tf.Operation:
    """
    :param layer: with the loss
    :param target: [B, target_time], labels
    :param target_time: its time dim
    :param frames: time dim of the output of the layer
    :param label_loop: whether a label can last several frames, so that a blank has to be between two of the same
    :param where: how the error begins
    :param hint: what can be done, beside longer sequences
    :return: operation that fails if a target is too long, and says which one
    """
    batch = target.get_batch_dim_tag()
    num_labels = target_time.get_dyn_size_ext_for_device("cpu").copy_compatible_to_dims_raw([batch])
    num_frames = frames.get_dyn_size_ext_for_device("cpu").copy_compatible_to_dims_raw([batch])
    needed = num_labels
    if label_loop:
        labels = target.copy_compatible_to_dims_raw([batch, target_time])
        is_behind = tf.range(1, tf.maximum(tf.shape(labels)[1], 1))[None] < num_labels[:, None]
        needed += tf.reduce_sum(tf.cast(tf.equal(labels[:, 1:], labels[:, :-1]) & is_behind, tf.int32), axis=1)
    too_long = needed > num_frames
    i = tf.argmax(too_long)
    numbers = [tf.strings.as_string(tf.broadcast_to(x, tf.shape(needed))[i]) for x in (num_labels, needed, num_frames)]
    message = tf.strings.join(
        [
            f"{where}: the target of the sequence '",
            _name(layer, batch, i),
            "' has ",
            numbers[0],
            " labels, which need ",
            numbers[1],
            " frames; number of its frames: ",
            numbers[2],
            f". {hint}",
        ]
    )
    return tf.raw_ops.Assert(condition=tf.logical_not(tf.reduce_any(too_long)), data=[message])


def _name(layer: LayerTargets, batch: Dim, index: tf.Tensor) -> tf.Tensor:
    """:return: tag of the sequence, or its number where the batch is merged with something else"""
    return layer.network.get_seq_tags()[index] if batch == batch_dim else tf.strings.as_string(index)
