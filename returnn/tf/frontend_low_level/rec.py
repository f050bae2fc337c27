"""Recurrence on raw TensorFlow tensors."""

from __future__ import annotations

import tensorflow as tf

from returnn.frontend._array_backend.rec import RecArrayOps


class RecTFOps(RecArrayOps):
    """For the meaning of the operations see `returnn.frontend._array_backend.rec`."""

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
        projected = tf.einsum("tbi,oi->tbo", raw_tensor, ff_weight)
        if bias is not None:
            projected += bias
        rec_weight = tf.transpose(rec_weight)
        num_frames = tf.shape(raw_tensor)[0]
        dtype = raw_tensor.dtype

        def step(
            t: tf.Tensor, h: tf.Tensor, c: tf.Tensor, outputs: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.TensorArray]:
            parts = frames.read(t) + tf.matmul(h, rec_weight)
            gate_in, forget, new, gate_out = tf.split(parts, 4, axis=-1)
            new_c = tf.sigmoid(forget) * c + tf.sigmoid(gate_in) * tf.tanh(new)
            new_h = tf.sigmoid(gate_out) * tf.tanh(new_c)
            if lengths is not None:
                is_valid = (t < lengths)[:, None]
                new_h, new_c = tf.where(is_valid, new_h, h), tf.where(is_valid, new_c, c)
            return t + 1, new_h, new_c, outputs.write(t, new_h)

        frames = tf.TensorArray(dtype, num_frames, element_shape=projected.shape[1:]).unstack(projected)
        outputs = tf.TensorArray(dtype, num_frames, element_shape=h.shape)
        _, h, c, outputs = tf.while_loop(
            lambda t, *_: t < num_frames, step, (tf.constant(0), h, c, outputs), maximum_iterations=num_frames
        )
        return outputs.stack(), h, c
