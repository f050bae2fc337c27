"""Sums and differences of sizes, without operations that do nothing: of numbers, of 0, of what was just added."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Size = Any  # int, numpy number, or raw integer tensor


def _static(x: Size) -> Any:
    return tf.get_static_value(x) if tf.is_tensor(x) else x


def _is(x: Size, number: int) -> bool:
    value = _static(x)
    return value is not None and not getattr(value, "shape", ()) and value == number


def _operands(x: Size, op_types: tuple[str, ...]) -> tuple[Any, Any] | None:
    is_such = tf.is_tensor(x) and not isinstance(x, tf.Variable) and x.op.type in op_types
    return (x.op.inputs[0], x.op.inputs[1]) if is_such else None


def simplify_neg(a: Size) -> Size:
    """:return: -a"""
    if tf.is_tensor(a) and a.op.type == "Neg":
        return a.op.inputs[0]
    return -a


def simplify_add(a: Size, b: Size) -> Size:
    """:return: a + b; a itself if b is 0; (x - b) + b is x"""
    if _is(b, 0):
        return a
    if _is(a, 0):
        return b
    for x, y in ((a, b), (b, a)):
        parts = _operands(x, ("Sub",))
        if parts is not None and _same(parts[1], y):
            return parts[0]
        if tf.is_tensor(y) and y.op.type == "Neg":
            return simplify_sub(x, y.op.inputs[0])
    return a + b


def simplify_sub(a: Size, b: Size) -> Size:
    """:return: a - b; a itself if b is 0; (x + b) - b is x"""
    if _is(b, 0):
        return a
    if _same(a, b):
        return tf.zeros_like(a) if tf.is_tensor(a) else 0
    parts = _operands(a, ("AddV2", "Add"))
    for x, y in (parts, parts[::-1]) if parts is not None else ():
        if _same(y, b):
            return x
    return a - b


def simplify_non_negative_seq_length(x: tf.Tensor) -> tf.Tensor:
    """
    :param x: (B,), lengths, none of them negative
    :return: the same; of a maximum of lengths and 0, the lengths
    """
    parts = _operands(x, ("Maximum",))
    for length, bound in (parts, parts[::-1]) if parts is not None else ():
        if _is(bound, 0):
            return length
    return x


def _same(a: Size, b: Size) -> bool:
    if a is b:
        return True
    values = _static(a), _static(b)
    return values[0] is not None and not getattr(values[0], "shape", ()) and values[0] == values[1]


def onnx_compat_floor_div(a: tf.Tensor, b: int | tf.Tensor) -> tf.Tensor:
    """:return: a // b, rounded down. TensorFlow's own operation for that is exported as it is"""
    return tf.math.floordiv(a, b)


def broadcast_gradient_args(shape_x: tf.Tensor, shape_y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """
    :param shape_x: (N,)
    :param shape_y: (M,)
    :return: over which axes a gradient of the shape after broadcasting has to be summed up, to get one for x; for y
    """
    reduce_x, reduce_y = tf.raw_ops.BroadcastGradientArgs(s0=shape_x, s1=shape_y)
    return reduce_x, reduce_y
