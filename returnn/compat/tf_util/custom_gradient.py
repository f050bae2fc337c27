"""Functions with a gradient of their own, and the gradients of TensorFlow's operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from returnn.tf.util.grad import loss_with_error_signal
from returnn.tf.util.numeric import flip_gradient

tf1 = tf.compat.v1


class CustomGradient:
    """Makes functions with a gradient of their own."""

    def __init__(self) -> None:
        self.num_calls = 0
        self.registered_ops: dict[Any, Callable[..., Any]] = {}

    def register(
        self,
        input_types: Sequence[Any],
        op: Callable[..., Any],
        grad_op: Callable[..., Any],
        name: str | None = None,
    ) -> Callable[..., Any]:
        """
        :param input_types: dtypes of the arguments
        :param op: function on raw tensors
        :param grad_op: from an object with `inputs` and `outputs`, and the gradient of each output, to the gradient of
            each input
        :param name: of the operation
        :return: the function; always the same one for the same arguments
        """
        key = (op, grad_op, tuple(map(tf.as_dtype, input_types)), name)
        if key not in self.registered_ops:
            self.registered_ops[key] = self._function(list(key[2]), op, grad_op, name or getattr(op, "__name__", "op"))
        return self.registered_ops[key]

    def _function(
        self, dtypes: list[tf.DType], op: Callable[..., Any], grad_op: Callable[..., Any], name: str
    ) -> Callable[..., Any]:
        @tf.custom_gradient
        def apply(*args: tf.Tensor) -> Any:
            outputs = op(*args)

            def gradient(*upstream: tf.Tensor) -> Any:
                call = _Call(list(args), tf.nest.flatten(outputs))
                return grad_op(call, *upstream)

            return outputs, gradient

        def function(*args: Any) -> Any:
            self.num_calls += 1
            values = [tf.convert_to_tensor(arg, dtype=dtype) for arg, dtype in zip(args, dtypes, strict=True)]
            with tf.name_scope(name.strip("<>")):
                return apply(*values)

        return function

    def register_generic_loss_and_error_signal(self) -> None:
        """Nothing has to be registered any more for `generic_loss_and_error_signal`."""

    def generic_loss_and_error_signal(self, loss: tf.Tensor, x: tf.Tensor, grad_x: tf.Tensor) -> tf.Tensor:
        """
        :param loss: any shape
        :param x: what the loss was computed from
        :param grad_x: shape of x, the gradient of x
        :return: loss, with this gradient
        """
        return loss_with_error_signal(loss, x, grad_x)


class _Call:
    """What a gradient function gets to know of the call."""

    def __init__(self, inputs: list[tf.Tensor], outputs: list[tf.Tensor]) -> None:
        self.inputs = inputs
        self.outputs = outputs


custom_gradient = CustomGradient()


class FlipGradientBuilder:
    """The function `flip_gradient` as an object."""

    def __call__(self, x: tf.Tensor, scale: float = 1.0) -> tf.Tensor:
        """
        :param x: any shape
        :param scale: factor of the gradient, beside its sign
        :return: x, with the gradient reversed
        """
        return flip_gradient(x, scale)


def lookup_grad_func_by_name(op_type: str) -> Callable[..., Any]:
    """
    :param op_type: such as "MatMul"
    :return: function from the operation, and the gradient of its outputs, to the gradient of its inputs
    """
    return ops._gradient_registry.lookup(op_type)  # type: ignore[no-any-return]


def opt_register_grad_func(op_type: str, grad_func: Callable[..., Any], assert_is_same: bool = True) -> Any:
    """
    :param op_type: such as "MyOp"
    :param grad_func: see `lookup_grad_func_by_name`
    :param assert_is_same: it has to be this one, if there is one already
    :return: the gradient function of this operation
    """
    try:
        known = lookup_grad_func_by_name(op_type)
    except LookupError:
        return tf.RegisterGradient(op_type)(grad_func)
    assert known is grad_func or not assert_is_same, f"{op_type} has another gradient already: {known}"
    return known


def add_scaled_noise_to_gradients(
    grads_and_vars: Sequence[tuple[Any, Any]], gradient_noise_scale: float, sparse_grads: bool = False
) -> list[tuple[Any, Any]]:
    """
    :param grads_and_vars: gradients, some may be None, and their variables
    :param gradient_noise_scale: standard deviation of the noise
    :param sparse_grads: sparse gradients stay sparse: only their entries get noise
    :return: the same with normally distributed noise on the gradients (Neelakantan et al. 2015)
    """
    result = []
    for gradient, var in grads_and_vars:
        if isinstance(gradient, tf.IndexedSlices) and sparse_grads:
            values = gradient.values + _noise(gradient.values, gradient_noise_scale)
            gradient = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        elif gradient is not None:
            gradient = tf.convert_to_tensor(gradient)
            gradient += _noise(gradient, gradient_noise_scale)
        result.append((gradient, var))
    return result


def _noise(x: tf.Tensor, scale: float) -> tf.Tensor:
    return tf1.truncated_normal(tf.shape(x), dtype=x.dtype) * tf.cast(scale, x.dtype)
