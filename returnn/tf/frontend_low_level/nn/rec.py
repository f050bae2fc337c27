"""Recurrence on raw TensorFlow tensors."""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.lstm_scan import lstm_gates, lstm_scan
from returnn.tf.frontend_low_level.kernels.native import has_operations
from returnn.tf.frontend_low_level.kernels.native_lstm import native_lstm


class RecTFOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def lstm_raw(
        raw_tensor: tf.Tensor,
        h: tf.Tensor,
        c: tf.Tensor,
        ff_weight: tf.Tensor,
        rec_weight: tf.Tensor,
        bias: tf.Tensor | None,
        lengths: tf.Tensor | None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """:return: output, last state. What comes in is projected for all frames at once."""
        projected = tf.einsum("tbi,oi->tbo", raw_tensor, _in_order_of_scan(ff_weight))
        if bias is not None:
            projected += _in_order_of_scan(bias)
        rec_weight = tf.transpose(_in_order_of_scan(rec_weight))
        if raw_tensor.shape[0] == 1 and lengths is None:
            c, h, _, _ = lstm_gates(projected[0] + tf.matmul(h, rec_weight), c)
            return h[None], h, c
        if has_operations(raw_tensor.dtype):
            frames = native_lstm(projected, rec_weight, c, h, lengths=lengths)
            return frames.h, frames.last_h, frames.last_c
        all_c, all_h = lstm_scan(projected, rec_weight, c, h)
        return all_h, _last(all_h, h, lengths), _last(all_c, c, lengths)


def _in_order_of_scan(weight: tf.Tensor) -> tf.Tensor:
    """
    :param weight: (4 F, ...), input gate, forget gate, new value, output gate
    :return: with the new value first
    """
    i, f, new, o = tf.split(weight, 4, axis=0)
    return tf.concat([new, i, f, o], axis=0)


def _last(frames: tf.Tensor, initial: tf.Tensor, lengths: tf.Tensor | None) -> tf.Tensor:
    """
    :param frames: (T, B, F)
    :param initial: (B, F), for sequences without frames
    :param lengths: (B,), or None if all have T frames
    :return: (B, F), in the last frame of each sequence
    """
    if lengths is None:
        return tf.concat([initial[None], frames[-1:]], axis=0)[-1]
    entries = tf.range(tf.shape(initial)[0], dtype=lengths.dtype)
    return tf.gather_nd(tf.concat([initial[None], frames], axis=0), tf.stack([lengths, entries], axis=-1))
