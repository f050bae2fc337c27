"""The learning rate of a single step: that of the epoch, changed by `dynamic_learning_rate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from returnn.engine.learning_rate_control import check_dynamic_learning_rate, wrong_dynamic_rate


def learning_rate_of_step(
    dynamic_learning_rate: Mapping[str, float] | Callable | None,
    *,
    learning_rate: tf.Tensor,
    global_train_step: tf.Tensor,
    network: object,
) -> tf.Tensor:
    """
    :param dynamic_learning_rate: a function of `learning_rate`, `global_train_step` and `network`; or a dict: within
        each `interval` of steps, the factor of the learning rate falls from 1 to `decay`, exponentially
    :param learning_rate: of the epoch, a float32 scalar
    :param global_train_step: number of the step, from 0
    :return: float32 scalar
    :raises ConfigError: if the function cannot be called, or returns None, or the dict has other keys
    """
    check_dynamic_learning_rate(dynamic_learning_rate)
    if dynamic_learning_rate is None:
        return learning_rate
    if callable(dynamic_learning_rate):
        result = dynamic_learning_rate(
            network=network, global_train_step=global_train_step, learning_rate=learning_rate
        )
        if result is None:
            raise wrong_dynamic_rate(result, when="for the graph")
        return tf.cast(tf.convert_to_tensor(result), learning_rate.dtype)
    return learning_rate * _decay_factor(dynamic_learning_rate, global_train_step)


def _decay_factor(options: Mapping[str, float], global_train_step: tf.Tensor) -> tf.Tensor:
    interval = int(options["interval"])
    position = tf.cast(global_train_step % interval, tf.float32) / interval
    return tf.pow(tf.constant(options["decay"], tf.float32), position)
