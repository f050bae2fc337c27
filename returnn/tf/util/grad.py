"""Gradients of raw tensors, changed on their way back."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor


def filter_grad(x: Tensor, *, threshold: float, axis: Dim) -> Tensor:
    """
    :param x: {..., axis}
    :param threshold: where the gradient is larger than this, in its norm over `axis` ...
    :param axis: a dim
    :return: x; ... the gradient is 0
    """
    out = x.copy()
    if x.raw_tensor is not None:
        out.raw_tensor = _filter_raw(x.raw_tensor, threshold, x.get_axis_from_description(axis))
    return out


def _filter_raw(x: tf.Tensor, threshold: float, axis: int) -> tf.Tensor:
    @tf.custom_gradient
    def identity(value: tf.Tensor) -> Any:
        def grad(upstream: tf.Tensor) -> tf.Tensor:
            norm = tf.reduce_sum(tf.square(upstream), axis=axis, keepdims=True)
            return tf.where(norm > threshold**2, tf.zeros_like(upstream), upstream)

        return tf.identity(value), grad

    return identity(x)


@tf.custom_gradient
def with_unit_gradient(x: tf.Tensor) -> Any:
    """:return: x; its gradient is 1, whatever is computed with it"""
    return tf.identity(x), tf.ones_like
