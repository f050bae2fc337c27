"""
LSTM over two axes, source and target (Bahar, Brix and Ney 2018, "Towards two-dimensional sequence to sequence model in
neural machine translation"; the cell is the one of Leifert et al. 2016).

Entry (j, i) is made from (j - 1, i), to its left, and (j, i - 1), the target frame before:

    z = x_j + y_i + V_h h[j-1, i] + V_v h[j, i-1]
    n, in, f, o, l = tanh(z_n), sigmoid(z_in), ...
    c = f (l c[j-1, i] + (1 - l) c[j, i-1]) + in n
    h = o tanh(c)

All entries with the same i + j only need those of the diagonal before. So there is one loop, over the diagonals: in the
kernel of `returnn.native`, or else in TensorFlow.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations
from returnn.tf.frontend_low_level.loop_counter import set_loop_counter

POOLINGS = ("last", "max", "avg")


def twod_lstm_scan(
    *, source: tf.Tensor, target: tf.Tensor, weights_h: tf.Tensor, weights_v: tf.Tensor, c: tf.Tensor, h: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param source: (S, N, 5 F), projected, with the bias
    :param target: (T, N, 5 F), projected
    :param weights_h: (F, 5 F), along the source
    :param weights_v: (F, 5 F), along the target
    :param c: (S, N, F), of the target frame before the first one
    :param h: the same for the output
    :return: c and h of all entries, each (T, S, N, F)
    """
    weights = tf.concat([weights_h, weights_v], axis=0)
    operations = get_operations() if has_operations(source.dtype) else None
    if operations is None:
        return _loop_over_diagonals(source, target, weights, c, h)
    inputs = {"source": source, "target": target, "weights": weights, "c0": c, "h0": h}
    results = operations.call("twod_lstm", inputs)
    return results["c"], results["h"]


def _loop_over_diagonals(
    source: tf.Tensor, target: tf.Tensor, weights: tf.Tensor, c: tf.Tensor, h: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param weights: (2 F, 5 F). For the others, and what comes back, see `twod_lstm_scan`
    """
    shape = tf.TensorShape([None, None, h.shape[-1]])
    num_source, num_target = tf.shape(source)[0], tf.shape(target)[0]
    num_diagonals = tf.where(num_target > 0, num_source + num_target - 1, 0)
    j = tf.range(num_source)
    has_left = tf.cast(j > 0, source.dtype)[:, None, None]
    arrays = [tf.TensorArray(source.dtype, size=num_diagonals, element_shape=shape) for _ in range(2)]

    def step(d: tf.Tensor, c: tf.Tensor, h: tf.Tensor, *arrays: tf.TensorArray) -> list[Any]:
        set_loop_counter(d)
        i = d - j
        c_left, h_left = (tf.roll(x, 1, axis=0) * has_left for x in (c, h))
        y = tf.gather(target, tf.clip_by_value(i, 0, num_target - 1))
        z = source + y + tf.tensordot(tf.concat([h_left, h], axis=-1), weights, 1)
        has_begun = (i >= 0)[:, None, None]
        new = [tf.where(has_begun, a, b) for a, b in zip(_cell(z, c_left, c), (c, h), strict=True)]
        return [d + 1, *new, *(array.write(d, x) for array, x in zip(arrays, new, strict=True))]

    _, _, _, *arrays = tf.compat.v1.while_loop(
        lambda d, *_: d < num_diagonals,
        step,
        [tf.constant(0), c, h, *arrays],
        shape_invariants=[tf.TensorShape([]), shape, shape, tf.TensorShape([]), tf.TensorShape([])],
    )
    positions = tf.range(num_target)[:, None] + j[None]
    at = tf.stack([positions, tf.broadcast_to(j[None], tf.shape(positions))], axis=-1)
    all_c, all_h = (tf.gather_nd(_stacked(array, tf.shape(h)), at) for array in arrays)
    return all_c, all_h


def pool_source_axis(x: tf.Tensor, mask: tf.Tensor, pooling: str) -> tf.Tensor:
    """
    :param x: (T, S, N, F)
    :param mask: (S, N), 1 for frames of the source
    :param pooling: "last" frame of each source sequence, "max" or "avg" over all of its frames
    :return: (T, N, F)
    """
    mask = tf.cast(mask, x.dtype)
    lengths = tf.reduce_sum(mask, axis=0)
    if pooling == "last":
        is_last = tf.one_hot(tf.cast(lengths, tf.int32) - 1, tf.shape(x)[1], axis=0, dtype=x.dtype)
        return tf.einsum("tsnf,sn->tnf", x, is_last)
    if pooling == "avg":
        return tf.einsum("tsnf,sn->tnf", x, mask) / tf.maximum(lengths, 1.0)[None, :, None]
    assert pooling == "max", pooling
    return tf.reduce_max(tf.where(mask[None, ..., None] > 0, x, x.dtype.min), axis=1)


def _stacked(array: tf.TensorArray, shape: tf.Tensor) -> tf.Tensor:
    """:return: (D, S, N, F); also where there are no diagonals"""
    stacked = tf.raw_ops.TensorListStack(input_handle=array.flow, element_shape=shape, element_dtype=array.dtype)
    stacked.set_shape([None, *array.element_shape])
    return stacked


def _cell(z: tf.Tensor, c_left: tf.Tensor, c_before: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    z_n, rest = z[..., : z.shape[-1] // 5], tf.sigmoid(z[..., z.shape[-1] // 5 :])
    gate_in, f, o, to_left = tf.split(rest, 4, axis=-1)
    c = f * (to_left * c_left + (1.0 - to_left) * c_before) + gate_in * tf.tanh(z_n)
    return c, o * tf.tanh(c)
