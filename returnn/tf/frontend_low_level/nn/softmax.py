"""Softmax on raw TensorFlow tensors."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.cross_entropy import native_cross_entropy
from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations
from returnn.tf.frontend_low_level.products.search_products import is_without_gradients

_KEEP_VALUES = ("Identity", "Reshape", "Transpose", "ExpandDims", "Squeeze")  # operations which only change the layout


class SoftmaxTFOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def softmax_raw(raw_tensor: tf.Tensor, axis: int) -> tf.Tensor:
        """:return: softmax"""
        behind = raw_tensor.shape[axis % raw_tensor.shape.ndims + 1 :]
        is_second = axis % raw_tensor.shape.ndims == 1 and raw_tensor.shape.ndims in (3, 4)
        if is_second and set(behind) - {1} and is_without_gradients() and has_operations(raw_tensor.dtype):
            return _softmax_of_second_axis(raw_tensor)
        return _over_last_axis(_softmax, raw_tensor, axis)

    @staticmethod
    def log_softmax_raw(raw_tensor: tf.Tensor, axis: int) -> tf.Tensor:
        """:return: logarithm of the softmax"""
        return _over_last_axis(tf.nn.log_softmax, raw_tensor, axis)

    @classmethod
    def log_of_softmax_raw(cls, raw_tensor: tf.Tensor, eps: float) -> tf.Tensor | None:
        """:return: looks for the softmax in the graph, also behind changes of the layout"""
        if tf.executing_eagerly() or not isinstance(raw_tensor, tf.Tensor):
            return None
        op = raw_tensor.op
        if op.type == "Softmax":
            return tf.nn.log_softmax(op.inputs[0])
        if op.type == "SelectV2" and _is_zero(op.inputs[2]):  # of what is left out
            log = cls.log_of_softmax_raw(op.inputs[1], eps)
            return None if log is None else tf.where(op.inputs[0], log, tf.math.log(tf.cast(eps, log.dtype)))
        if op.type not in _KEEP_VALUES:
            return None
        log = cls.log_of_softmax_raw(op.inputs[0], eps)
        if log is None or op.type == "Identity":
            return log
        if op.type == "Squeeze":
            return tf.squeeze(log, axis=op.get_attr("squeeze_dims"))
        function = {"Reshape": tf.reshape, "Transpose": tf.transpose, "ExpandDims": tf.expand_dims}[op.type]
        return function(log, op.inputs[1])

    @staticmethod
    def sparse_cross_entropy_raw(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """:return: cross entropy"""
        if targets.dtype not in (tf.int32, tf.int64):
            targets = tf.cast(targets, tf.int32)
        native = native_cross_entropy(logits, targets)
        if native is not None:
            return native
        return tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=targets)


def _is_zero(x: tf.Tensor) -> bool:
    return x.op.type == "Const" and x.shape.rank == 0 and not tf.get_static_value(x)


def _softmax_of_second_axis(x: tf.Tensor) -> tf.Tensor:
    """:return: softmax over this axis of three or four, without moving it to the end"""
    operations = get_operations()
    assert operations is not None
    with_four = x if x.shape.ndims == 4 else tf.expand_dims(x, -1)
    out = operations.call("softmax_of_axis", {"x": with_four})["y"]
    return out if x.shape.ndims == 4 else tf.squeeze(out, -1)


def _softmax(x: tf.Tensor) -> tf.Tensor:
    """:return: softmax over the last axis. TensorFlow's own takes at most five axes on CPUs, and fails when it runs"""
    if x.shape.ndims <= 5:
        return tf.nn.softmax(x)
    shape = tf.shape(x)
    out = tf.reshape(tf.nn.softmax(tf.reshape(x, [tf.reduce_prod(shape[:-1]), shape[-1]])), shape)
    return tf.ensure_shape(out, x.shape)


def _over_last_axis(function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor, axis: int) -> tf.Tensor:
    """:return: function of x over this axis. TensorFlow itself needs many operations to move an axis to the end"""
    num = x.shape.ndims
    behind = list(range(axis % num + 1, num))
    if not behind:
        return function(x)
    if all(x.shape[i] == 1 for i in behind):
        out = function(tf.squeeze(x, axis=behind))
        for _ in behind:
            out = tf.expand_dims(out, -1)
        return out
    order = [i for i in range(num) if i != behind[0] - 1] + [behind[0] - 1]
    return tf.transpose(function(tf.transpose(x, order)), [order.index(i) for i in range(num)])
