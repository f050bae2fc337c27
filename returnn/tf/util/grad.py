"""Gradients of raw tensors, changed on their way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor


def filter_grad(x: Tensor, *, threshold: float, axis: Sequence[Dim]) -> Tensor:
    """
    :param x: {..., axis...}
    :param threshold: where the largest square of the gradient over `axis` is not below this ...
    :param axis: dims
    :return: x; ... the gradient is 0
    """
    out = x.copy()
    if x.raw_tensor is not None:
        out.raw_tensor = filter_grad_raw(x.raw_tensor, threshold, [x.get_axis_from_description(dim) for dim in axis])
    return out


def filter_grad_raw(x: tf.Tensor, threshold: float, axis: int | Sequence[int]) -> tf.Tensor:
    """
    :param x: (...)
    :param threshold: where the largest square of the gradient over `axis` is not below this ...
    :param axis: of x, one or several
    :return: x; ... the gradient is 0
    """

    @tf.custom_gradient
    def identity(value: tf.Tensor) -> Any:
        def grad(upstream: tf.Tensor) -> tf.Tensor:
            largest = tf.reduce_max(tf.square(upstream), axis=axis, keepdims=True)
            return tf.where(largest < threshold, upstream, tf.zeros_like(upstream))

        return tf.identity(value), grad

    return identity(x)


@tf.custom_gradient
def with_unit_gradient(x: tf.Tensor) -> Any:
    """:return: x; its gradient is 1, whatever is computed with it"""
    return tf.identity(x), tf.ones_like


def scaled_gradient(
    x: tf.Tensor,
    scale: float | tf.Tensor = 1.0,
    shift: float | tf.Tensor | None = None,
    scale_shift_by_sum_over_axis: int | None = None,
    clip_max_axis: int | None = None,
) -> tf.Tensor:
    """
    :param x: (...)
    :param scale: factor for the gradient
    :param shift: is added to it
    :param scale_shift_by_sum_over_axis: the shift is multiplied by the sum of the absolute gradient over this axis
    :param clip_max_axis: no entry becomes larger than the largest one of the gradient before, over this axis, both
        without sign: where there was no gradient, the shift makes none
    :return: x
    """
    if shift is None and clip_max_axis is None and isinstance(scale, (int, float)) and scale == 0:
        return tf.stop_gradient(x)

    def change(gradient: tf.Tensor) -> tf.Tensor:
        total: Any = 1.0
        if scale_shift_by_sum_over_axis is not None:
            total = tf.reduce_sum(tf.abs(gradient), axis=scale_shift_by_sum_over_axis, keepdims=True)
        changed = gradient * scale
        changed = changed if shift is None else changed + shift * total
        if clip_max_axis is not None:
            largest = tf.reduce_max(tf.abs(gradient), axis=clip_max_axis, keepdims=True)
            changed = tf.clip_by_value(changed, -largest, largest)
        return changed

    @tf.custom_gradient
    def identity(value: tf.Tensor) -> Any:
        return tf.identity(value), change

    return identity(x)


@tf.custom_gradient
def loss_with_error_signal(loss: tf.Tensor, x: tf.Tensor, grad_x: tf.Tensor) -> Any:
    """
    :param loss: scalar
    :param x: (...), what the loss was computed from
    :param grad_x: (...), the gradient of x
    :return: loss, with this gradient
    """
    return tf.identity(loss), lambda scale: (tf.zeros_like(loss), scale * grad_x, tf.zeros_like(grad_x))
