"""Mathematics on raw tensors."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from returnn.tf.util.grad import scaled_gradient
from returnn.tf.util.safe_math import safe_exp


def dot(a: tf.Tensor, b: tf.Tensor, transpose_b: bool = False) -> tf.Tensor:
    """:return: (..., F) x (F, ...) or, with `transpose_b`, (..., F) x (..., F): product over the last and first axis"""
    return tf.tensordot(a, b, axes=[[-1], [-1 if transpose_b else 0]])


def identity(x: Any) -> Any:
    """:return: x"""
    return x


def optional_add(*args: Any) -> Any:
    """:return: sum of those that are not None; None if all are"""
    given = [x for x in args if x is not None]
    return sum(given[1:], given[0]) if given else None


def optional_mul(*args: Any) -> Any:
    """:return: product of those that are not None; None if all are"""
    given = [x for x in args if x is not None]
    return math.prod(given[1:], start=given[0]) if given else None


def opt_logical_and(*args: bool | tf.Tensor) -> bool | tf.Tensor:
    """:return: whether all are true; a bool if that is known"""
    unknown = [x for x in args if not isinstance(x, bool)]
    if any(x is False for x in args) or not unknown:
        return not any(x is False for x in args)
    result = unknown[0]
    for x in unknown[1:]:
        result = tf.logical_and(result, x)
    return result


def opt_logical_or(*args: bool | tf.Tensor) -> bool | tf.Tensor:
    """:return: whether one is true; a bool if that is known"""
    unknown = [x for x in args if not isinstance(x, bool)]
    if any(x is True for x in args) or not unknown:
        return any(x is True for x in args)
    result = unknown[0]
    for x in unknown[1:]:
        result = tf.logical_or(result, x)
    return result


def prod(ls: Any) -> Any:
    """:return: product of numbers or raw tensors"""
    return math.prod(ls)


def nan_to_num(x: tf.Tensor, nan_num: float = 0, inf_num: float = 1e30) -> tf.Tensor:
    """:return: x with NaN and infinities replaced by numbers"""
    x = tf.where(tf.math.is_nan(x), tf.cast(nan_num, x.dtype), x)
    return tf.where(tf.math.is_inf(x), tf.sign(x) * tf.cast(inf_num, x.dtype), x)


def minimum_with_identity_grad(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """:return: min(x, y); the gradient of x is as if nothing was cut"""
    return x + tf.stop_gradient(tf.minimum(x, y) - x)


def maximum_with_identity_grad(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """:return: max(x, y); the gradient of x is as if nothing was cut"""
    return x + tf.stop_gradient(tf.maximum(x, y) - x)


def clip_by_value_with_identity_grad(x: tf.Tensor, clip_value_min: Any, clip_value_max: Any) -> tf.Tensor:
    """:return: x between the bounds; the gradient is as if nothing was cut"""
    return x + tf.stop_gradient(tf.clip_by_value(x, clip_value_min, clip_value_max) - x)


def flip_gradient(x: tf.Tensor, scale: float = 1.0) -> tf.Tensor:
    """:return: x; its gradient is reversed (Ganin & Lempitsky 2015)"""
    return scaled_gradient(x, -scale)


def lin_exp(x: tf.Tensor, use_safe_exp: bool = True) -> tf.Tensor:
    """:return: 1 + x for x > 0, exp(x) below"""
    negative = tf.minimum(x, 0)
    return tf.where(x > 0, x + 1, safe_exp(negative) if use_safe_exp else tf.exp(negative))


def lin_exp_normed(x: tf.Tensor, axis: int = -1, eps: float = 1e-10) -> tf.Tensor:
    """:return: `lin_exp`, divided by its sum over an axis"""
    values = lin_exp(x)
    return values / (tf.reduce_sum(values, axis=axis, keepdims=True) + eps)


def l1_normalized(
    x: tf.Tensor, axis: int = -1, eps: float = 1e-20, use_logsumexp: bool = False, is_not_negative: bool = False
) -> tf.Tensor:
    """
    :param x: raw tensor
    :param axis: over which the sum of the absolute values is 1 afterwards
    :param eps: the sum is at least this
    :param use_logsumexp: compute it in log space, for very small numbers
    :param is_not_negative: no number is negative
    """
    magnitude = x if is_not_negative else tf.abs(x)
    if use_logsumexp:
        log = tf.math.log(tf.maximum(magnitude, eps))
        normalized = tf.exp(log - tf.reduce_logsumexp(log, axis=axis, keepdims=True))
        return normalized if is_not_negative else normalized * tf.sign(x)
    return x / tf.maximum(tf.reduce_sum(magnitude, axis=axis, keepdims=True), eps)


def layer_norm(x: tf.Tensor, gain: tf.Tensor, bias: tf.Tensor, axis: int, epsilon: float = 1e-6) -> tf.Tensor:
    """:return: mean 0 and variance 1 over an axis, then scaled and shifted (Ba et al. 2016)"""
    mean, variance = tf.nn.moments(x, axes=[axis], keepdims=True)
    shape = [1] * x.shape.ndims
    shape[axis] = -1
    return (x - mean) * tf.math.rsqrt(variance + epsilon) * tf.reshape(gain, shape) + tf.reshape(bias, shape)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """:return: Gaussian error linear unit (Hendrycks & Gimpel 2016): x * Phi(x)"""
    return tf.nn.gelu(x, approximate=False)


def gelu2(x: tf.Tensor) -> tf.Tensor:
    """:return: the same, approximated by a sigmoid"""
    return x * tf.sigmoid(1.702 * x)


def gelu3(x: tf.Tensor) -> tf.Tensor:
    """:return: the same as `gelu`, written with the error function"""
    return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2.0)))


def smoothing_cross_entropy(
    logits: tf.Tensor,
    labels: tf.Tensor,
    label_smoothing: float,
    gaussian: bool = False,
    vocab_size: int | tf.Tensor | None = None,
    logits_are_normalized: bool = False,
) -> tf.Tensor:
    """
    :param logits: (..., V)
    :param labels: (...)
    :param label_smoothing: this part of the probability mass is spread over the other labels
    :param gaussian: labels with a near index get more of it
    :param vocab_size: V
    :param logits_are_normalized: they are log probabilities
    :return: (...): cross entropy, less its smallest possible value
    """
    size = tf.shape(logits)[-1] if vocab_size is None else vocab_size
    others = tf.cast(size - 1, logits.dtype)
    keep, low = 1.0 - label_smoothing, label_smoothing / others
    smallest = -(keep * math.log(keep) + others * low * tf.math.log(low + 1e-20))
    if gaussian:
        distance = tf.cast(tf.range(size), logits.dtype) - tf.cast(labels, logits.dtype)[..., None]
        target = tf.exp(-0.5 * tf.square(distance / keep)) / (keep * math.sqrt(2 * math.pi))
    else:
        target = tf.one_hot(labels, size, on_value=keep, off_value=low, dtype=logits.dtype)
    if logits_are_normalized:
        return -tf.reduce_sum(target * logits, axis=-1) - smallest
    return tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=logits) - smallest


def wrap_distribution_non_zero(x: tf.Tensor, zero_limit: float, limit: float) -> tf.Tensor:
    """:return: x, uniform in [-limit, limit], changed such that nothing is nearer to 0 than `zero_limit`"""
    return x * ((limit - zero_limit) / limit) + tf.where(x >= 0, zero_limit, -zero_limit)


def get_positional_encoding(
    num_channels: int,
    length: Any = None,
    position: tf.Tensor | None = None,
    min_timescale: float = 1.0,
    max_timescale: float = 1.0e4,
) -> tf.Tensor:
    """
    Sines and cosines (Vaswani et al. 2017, section 3.5).

    :param num_channels: F
    :param length: number of positions; instead of `position`
    :param position: (...), positions
    :param min_timescale: smallest wave length, divided by 2 pi
    :param max_timescale: largest wave length, divided by 2 pi
    :return: (..., F)
    """
    position = tf.range(length) if position is None else position
    number = num_channels // 2
    step = math.log(max_timescale / min_timescale) / max(number - 1, 1)
    scale = min_timescale * tf.exp(tf.range(number, dtype=tf.float32) * -step)
    angle = tf.cast(position, tf.float32)[..., None] * scale
    signal = tf.concat([tf.sin(angle), tf.cos(angle)], axis=-1)
    return tf.concat([signal, tf.zeros_like(signal[..., :1])], axis=-1) if num_channels % 2 else signal
