"""Short texts for tensors, operations and variables, with the values of constants. For debugging."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_MAX_NUM_VALUES = 10


def debug_register_better_repr() -> None:
    """From now on, `repr` of tensors, operations and variables of graphs tells what makes them, and small constants."""
    with tf.Graph().as_default():
        of_graph = type(tf.constant(0))
        variable = type(tf.compat.v1.Variable(0, use_resource=True))
    of_graph.__repr__ = _repr_of_tensor
    tf.Operation.__repr__ = _repr_of_operation
    variable.__repr__ = _repr_of_variable


def _repr_of_tensor(x: Any) -> str:
    value = tf.get_static_value(x) if x.shape.num_elements() is not None else None
    text = f" value={value.tolist()}" if value is not None and value.size <= _MAX_NUM_VALUES else f" by {x.op.type}"
    return f"<tf.Tensor {x.name!r} shape={_text_of_shape(x.shape)} dtype={x.dtype.name}{text}>"


def _repr_of_operation(op: Any) -> str:
    inputs = ", ".join(x.name for x in op.inputs)
    return f"<tf.Operation {op.name!r} type={op.type}{f' of {inputs}' if inputs else ''}>"


def _repr_of_variable(var: Any) -> str:
    return f"<tf.Variable {var.name!r} shape={_text_of_shape(var.shape)} dtype={var.dtype.name}>"


def _text_of_shape(shape: tf.TensorShape) -> str:
    if shape.rank is None:
        return "unknown"
    return f"[{', '.join('?' if size is None else str(size) for size in shape.as_list())}]"
