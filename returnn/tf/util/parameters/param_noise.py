"""Noise and dropout on parameters, in training."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level import raw_random

tf1 = tf.compat.v1


def with_param_noise(layer: Any, value: tf.Tensor) -> tf.Tensor:
    """
    :param layer: says how much: `param_variational_noise` (Graves 2011), `param_dropout`, `param_dropout_min_ndim`.
        Where it says nothing, the options of the config with these names hold
    :param value: value of a parameter
    :return: value to use: with noise in training, as it is otherwise
    """
    network = layer.network
    config = network.get_config()
    noise = _given(layer.param_variational_noise, config.options.param_variational_noise)
    if noise:
        value = network.cond_on_train(
            lambda: value + noise * raw_random.normal(tf.shape(value), dtype=value.dtype, seed=network.random_seed()),
            lambda: value,
        )
    dropout = _given(layer.param_dropout, config.options.param_dropout)
    min_ndim = _given(layer.param_dropout_min_ndim, config.options.param_dropout_min_ndim)
    if dropout and value.shape.ndims >= min_ndim:
        before = value
        value = network.cond_on_train(
            lambda: raw_random.dropped(before, rate=dropout, seed=network.random_seed()), lambda: before
        )
    return value


def _given(value: float | None, default: float) -> float:
    return default if value is None else value
