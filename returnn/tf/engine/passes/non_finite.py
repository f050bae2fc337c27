"""Losses that are not finite: the update is not done, and the layer where it begins is found."""

from __future__ import annotations

from typing import Any

import numpy
import tensorflow as tf

from returnn.tf.network import TFNetwork

NON_FINITE_LOSS = "training objective is not finite"


def checked_objective(objective: tf.Tensor) -> tf.Tensor:
    """:return: the same; a step in which it is not finite fails before parameters change"""
    return tf.debugging.check_numerics(objective, NON_FINITE_LOSS)


def first_non_finite_variable(session: tf.compat.v1.Session) -> str | None:
    """:return: name of a parameter that is trained; None if all are finite"""
    with session.graph.as_default():
        flags = {
            var.op.name: tf.reduce_all(tf.math.is_finite(var.read_value()))
            for var in tf.compat.v1.trainable_variables()
            if var.dtype.base_dtype.is_floating
        }
    return next((name for name, is_finite in session.run(flags).items() if not is_finite), None)


def first_non_finite_layer(network: TFNetwork, session: tf.compat.v1.Session, feed: dict[Any, Any]) -> str | None:
    """
    :param network: with its parameters as they were in the step
    :param feed: of the step
    :return: name of a layer, as text for people; None if all outputs are finite
    """
    outputs: dict[str, Any] = {}
    for layer in network.layers.values():  # in the order of their construction, so sources come first
        raw = layer.output.raw_tensor if layer.output is not None else None
        if isinstance(raw, tf.Tensor) and raw.dtype.is_floating and raw.graph is session.graph:
            outputs.setdefault(layer.get_absolute_name(), tf.reduce_all(tf.math.is_finite(raw)))
    return next((repr(name) for name, is_finite in session.run(outputs, feed).items() if not is_finite), None)


def non_finite_losses(network: TFNetwork, session: tf.compat.v1.Session, feed: dict[Any, Any]) -> list[str]:
    """
    :param network: with its parameters as they were in the step
    :param feed: of the step
    :return: names of the losses which are not finite
    """
    losses = {name: loss.get_loss_value_for_fetch() for name, loss in network.losses_dict.items()}
    values = session.run({name: value for name, value in losses.items() if value is not None}, feed)
    return [name for name, value in values.items() if not numpy.isfinite(value).all()]
