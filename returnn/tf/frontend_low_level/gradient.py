"""Gradients in TensorFlow graphs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor

_NO_GRADIENT = "ReturnnNoGradient"


class GradientTFOps:
    """The raw operations of `returnn.frontend._backends.required`."""

    @staticmethod
    def set_requires_gradient(tensor: Tensor) -> None:
        """Nothing to do: a graph has gradients with respect to all of its tensors."""

    @staticmethod
    def gradient_raw(y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        """:return: gradient; zeros if y does not depend on x"""
        (grad,) = tf.compat.v1.gradients(y, [x], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return tf.convert_to_tensor(grad)

    @staticmethod
    def stop_gradient_raw(x: tf.Tensor) -> tf.Tensor:
        """:return: the same value"""
        return tf.stop_gradient(x)

    @staticmethod
    def map_gradient_raw(x: tf.Tensor, function: Callable[[Any], Any]) -> tf.Tensor:
        """:return: the same value"""

        @tf.custom_gradient
        def identity(value: tf.Tensor) -> Any:
            return tf.identity(value), function

        return identity(x)

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context in which operations have no gradient"""
        if tf.executing_eagerly():
            return contextlib.nullcontext()
        return tf.compat.v1.get_default_graph().gradient_override_map(_without_gradient())


@tf.RegisterGradient(_NO_GRADIENT)
def _no_gradient(op: tf.Operation, *grads: tf.Tensor) -> list[None]:
    return [None] * len(op.inputs)


@functools.cache
def _without_gradient() -> dict[str, str]:
    """:return: for all types of operations, the name of a gradient which is none"""
    return {name: _NO_GRADIENT for name in dir(tf.raw_ops) if name[0].isupper()}
