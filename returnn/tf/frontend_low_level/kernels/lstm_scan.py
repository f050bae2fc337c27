"""
LSTM over all frames, with its own gradient.

What TensorFlow would derive adds up the gradient of the recurrent weights in each frame, with a matrix product and a
matrix sum of the size of the weights. Here, the loop backward only goes as far as the gates; the gradient of the
weights is one matrix product over all frames, outside of the loop. What a frame needs is packed, so that few operations
run in each.

    j, i, f, o = tanh(z_j), sigmoid(z_i), sigmoid(z_f), sigmoid(z_o)   with z = x + h' W
    c = f c' + i j
    h = o tanh(c)

The gates are in this order everywhere in here. c' and h' are of the frame before.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.frame_loop import Tensors, loop_over_frames
from returnn.tf.frontend_low_level.known_zero import is_known_zero


def lstm_gates(z: tf.Tensor, c: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """
    :param z: (N, 4 F)
    :param c: (N, F), cell before
    :return: c and h, each (N, F); j (N, F); i, f, o, side by side (N, 3 F)
    """
    size = c.shape[-1]
    z_j, z_ifo = tf.split(z, [size, 3 * size], axis=-1)
    j, ifo = tf.tanh(z_j), tf.sigmoid(z_ifo)
    i, f, o = tf.split(ifo, 3, axis=-1)
    new_c = c * f + i * j
    return new_c, o * tf.tanh(new_c), j, ifo


def lstm_scan(x: tf.Tensor, weights: tf.Tensor, c: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param x: (T, N, 4 F), projected input, with biases
    :param weights: (F, 4 F), recurrent
    :param c: (N, F), cell before the first frame
    :param h: (N, F), output before the first frame
    :return: c and h after each frame, each (T, N, F)
    """
    return _scan_with_gradient(x, weights, c, h)  # type: ignore[no-any-return]


@tf.custom_gradient
def _scan_with_gradient(
    x: tf.Tensor, weights: tf.Tensor, c0: tf.Tensor, h0: tf.Tensor
) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., Tensors]]:
    size = h0.shape[-1]

    def body(frames: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        c, h = state
        c, h, j, ifo = lstm_gates(frames[0] + tf.matmul(h, weights), c)
        return (c, h), (c, h, j, ifo)

    _, (c, h, j, ifo) = loop_over_frames(body, [x], (c0, h0), [size, size, size, 3 * size], back_prop=False)

    def gradient(dc: tf.Tensor, dh: tf.Tensor) -> Tensors:
        return _gradient(dc, dh, weights=weights, c0=c0, h0=h0, c=c, h=h, j=j, ifo=ifo)

    return (c, h), gradient


def _gradient(
    dc_out: tf.Tensor,
    dh_out: tf.Tensor,
    *,
    weights: tf.Tensor,
    c0: tf.Tensor,
    h0: tf.Tensor,
    c: tf.Tensor,
    h: tf.Tensor,
    j: tf.Tensor,
    ifo: tf.Tensor,
) -> Tensors:
    """:return: gradients of x, weights, c0, h0"""
    size = h0.shape[-1]
    i, f, o = tf.split(ifo, 3, axis=-1)
    c_before = tf.concat([c0[None], c], axis=0)[:-1]
    h_before = tf.concat([h0[None], h], axis=0)[:-1]
    tanh_c = tf.tanh(c)
    dc_by_dh = o * (1 - tf.square(tanh_c))
    inner = tf.concat([i * (1 - tf.square(j)), j * i * (1 - i), c_before * f * (1 - f), tanh_c * o * (1 - o)], axis=-1)
    has_dc = not is_known_zero(dc_out)

    def body(frames: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        dc, dh = state
        dh_out, dc_by_dh, f, inner, *dc_out = frames
        dh = dh + dh_out
        dc = dc + dc_by_dh * dh
        if dc_out:
            dc = dc + dc_out[0]
        dz = tf.concat([dc, dc, dc, dh], axis=-1) * inner
        return (dc * f, tf.matmul(dz, weights, transpose_b=True)), (dz,)

    inputs = [dh_out, dc_by_dh, f, inner, *([dc_out] if has_dc else [])]
    zeros = tf.zeros_like(c0)
    (dc0, dh0), (dz,) = loop_over_frames(body, inputs, (zeros, zeros), [4 * size], backward=True, back_prop=False)
    flat_h, flat_dz = tf.reshape(h_before, [-1, size]), tf.reshape(dz, [-1, 4 * size])
    return dz, tf.matmul(flat_h, flat_dz, transpose_a=True), dc0, dh0
