"""Norms over all gradients, sparse or dense."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from returnn.tf.optimizers.base import Gradient, GradsAndVars


def values_of(grad: Gradient) -> tf.Tensor:
    """:return: all entries that are not zero for sure; of a sparse gradient without repeated indices: its rows"""
    return grad.values if isinstance(grad, tf.IndexedSlices) else grad


def with_values(grad: Gradient, values: tf.Tensor) -> Gradient:
    """:return: a gradient like this one, sparse or dense, with other entries"""
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(values, grad.indices, grad.dense_shape)
    return values


def global_norm(grads: Sequence[Gradient], dtype: tf.DType = tf.float32) -> tf.Tensor:
    """
    :param grads: sparse ones without repeated indices
    :return: L2 norm of all entries together, a scalar
    """
    half_squares = [tf.cast(tf.nn.l2_loss(_at_least_float32(values_of(grad))), dtype) for grad in grads]
    return tf.sqrt(2.0 * tf.add_n(half_squares))


def _at_least_float32(values: tf.Tensor) -> tf.Tensor:
    """Squares of 300 are infinite in half precision."""
    return tf.cast(values, tf.float32) if values.dtype.size < 4 else values


def clip_factor(norm: tf.Tensor, limit: float) -> tf.Tensor:
    """:return: what to multiply by, so that the norm is at most `limit`; NaN if the norm is not finite"""
    limit = tf.constant(limit, norm.dtype)
    return tf.where(tf.math.is_finite(norm), limit / tf.maximum(norm, limit), norm - norm)


def scale(grad: Gradient, factor: tf.Tensor) -> Gradient:
    """:return: `factor * grad`"""
    values = values_of(grad)
    return with_values(grad, tf.cast(factor, values.dtype) * values)


def clip_by_global_norm(pairs: GradsAndVars, limit: float) -> GradsAndVars:
    """:return: the gradients, scaled so that the L2 norm of all together is at most `limit`"""
    factor = clip_factor(global_norm([grad for grad, _ in pairs], dtype=norm_dtype(pairs)), limit)
    return [(scale(grad, factor), var) for grad, var in pairs]


def norm_dtype(pairs: GradsAndVars) -> tf.DType:
    """:return: dtype for sums over all entries: double precision if some gradient has it"""
    return tf.float64 if any(values_of(grad).dtype == tf.float64 for grad, _ in pairs) else tf.float32
