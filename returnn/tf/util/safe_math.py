"""Logarithm and exponential function without infinities, on raw tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.nn.softmax import SoftmaxTFOps


def safe_log(x: tf.Tensor, eps: float = 1e-20, use_fake_grad: bool = True) -> tf.Tensor:
    """
    :param x: not negative
    :param eps: what is below counts as this
    :param use_fake_grad: below `eps`, the gradient is 1 / eps, rather than 0
    :return: log(max(x, eps)); if x is a softmax, the exact `log_softmax` of its input
    """
    x = tf.convert_to_tensor(x)
    log = SoftmaxTFOps.log_of_softmax_raw(x, eps)
    if log is not None:
        return log
    bounded = tf.maximum(x, eps)
    if use_fake_grad:
        bounded = x + tf.stop_gradient(bounded - x)
    return tf.math.log(bounded)


def safe_exp(x: tf.Tensor, eps: float = 1e-20) -> tf.Tensor:
    """:return: exp(x), with x cut at log(eps) from below and -log(eps) from above"""
    bound: Any = -tf.math.log(tf.constant(eps, dtype=tf.convert_to_tensor(x).dtype))
    return tf.exp(tf.clip_by_value(x, -bound, bound))
