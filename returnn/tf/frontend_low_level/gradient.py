"""Gradients in TensorFlow graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from returnn.tensor import Tensor


class GradientTFOps:
    """The raw operations of `returnn.frontend._array_backend.gradient`."""

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
    @contextlib.contextmanager
    def stop_gradient_scope() -> Iterator[None]:
        """:raises TypeError: always: operations of a graph do not know the scope that they were made in"""
        raise TypeError("stop_gradient_scope: not possible in a TensorFlow graph. Use rf.stop_gradient on the results.")
        yield
