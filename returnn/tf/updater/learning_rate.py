"""The learning rate of a single step: that of the epoch, changed by `dynamic_learning_rate`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import tensorflow as tf

from returnn.util.errors import ConfigError, check_known

_KEYS = ("interval", "decay")


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
    :raises ConfigError: if the function cannot be called, or the dict has other keys
    """
    if dynamic_learning_rate is None:
        return learning_rate
    if callable(dynamic_learning_rate):
        result = _call(dynamic_learning_rate, learning_rate, global_train_step, network)
        return tf.cast(tf.convert_to_tensor(result), learning_rate.dtype)
    return learning_rate * _decay_factor(dynamic_learning_rate, global_train_step)


def _call(function: Callable, learning_rate: tf.Tensor, global_train_step: tf.Tensor, network: object) -> object:
    arguments = {"network": network, "global_train_step": global_train_step, "learning_rate": learning_rate}
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as exc:
        raise ConfigError(
            f"option 'dynamic_learning_rate': the function cannot be called, {exc}.\n"
            "  It has to be as: def dynamic_learning_rate(*, network, global_train_step, learning_rate, **kwargs)."
        ) from exc
    return function(**arguments)


def _decay_factor(options: Mapping[str, float], global_train_step: tf.Tensor) -> tf.Tensor:
    for key in options:
        check_known("key", key, _KEYS, where="option 'dynamic_learning_rate'")
    for key in _KEYS:
        if not isinstance(options.get(key), (int, float)) or options[key] <= 0:
            raise ConfigError(
                f"option 'dynamic_learning_rate': {key!r} is {options.get(key)!r}.\n  It has to be a number above 0."
            )
    interval = int(options["interval"])
    position = tf.cast(global_train_step % interval, tf.float32) / interval
    return tf.pow(tf.constant(options["decay"], tf.float32), position)
