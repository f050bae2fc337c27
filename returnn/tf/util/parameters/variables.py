"""Variables: their initial values, assignments from outside, and which operations change them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.tf.util.shapes import get_ndim

tf1 = tf.compat.v1

_UPDATE_OPS = {
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "Assign",
    "AssignAdd",
    "AssignSub",
    "ResourceScatterAdd",
    "ResourceScatterSub",
    "ResourceScatterUpdate",
    "ResourceScatterNdUpdate",
}


class VariableAssigner:
    """Assigns values to a variable, as often as wanted. It adds one operation to the graph."""

    def __init__(self, var: tf.Variable) -> None:
        """
        :param var: the variable
        """
        self.var = var
        self._value = tf1.placeholder(var.dtype.base_dtype, var.shape, name=f"{var.op.name.split('/')[-1]}_value")
        self.assign_op = var.assign(self._value, read_value=False)

    def assign(self, value: Any, session: tf1.Session) -> None:
        """
        :param value: of the shape of the variable
        :param session: session to assign it in
        """
        session.run(self.assign_op, {self._value: value})


def init_variable_if_needed(v: tf.Variable) -> tf.Operation:
    """:return: operation which gives the variable its initial value, if it has none yet"""

    def initialize() -> tf.Tensor:
        with tf.control_dependencies([v.assign(v.initial_value, read_value=False)]):
            return tf.constant(True)

    return tf.cond(tf1.is_variable_initialized(v), lambda: tf.constant(False), initialize).op


def auto_init_var(v: tf.Variable) -> tf.Tensor:
    """:return: value of a variable, which gets its initial value if it has none yet"""
    with tf.control_dependencies([init_variable_if_needed(v)]):
        return v.read_value()


def make_var_tuple(v: Any) -> tuple[Any, ...]:
    """:return: nested lists and tuples as nested tuples; a single value as a tuple of one"""
    if not isinstance(v, (list, tuple)):
        return (v,)
    return tuple(make_var_tuple(entry) if isinstance(entry, (list, tuple)) else entry for entry in v)


def var_handle_or_ref(var: tf.Variable) -> tf.Tensor:
    """:return: what operations that change the variable have as input"""
    return getattr(var, "handle", None) if hasattr(var, "handle") else var._ref()


def get_variable_from_tensor(var: tf.Variable | tf.Tensor) -> tf.Variable | None:
    """:return: the variable that a value was read from, None if it was not"""
    if isinstance(var, tf.Variable):
        return var
    handles = {var_handle_or_ref(variable).ref(): variable for variable in tf1.global_variables()}
    op = var.op
    while op.type in ("Identity", "ReadVariableOp") and len(op.inputs) == 1:
        found = handles.get(op.inputs[0].ref())
        if found is not None:
            return found
        op = op.inputs[0].op
    return handles.get(var.ref())


def get_var_update_ops(var: tf.Variable, fetches: Any = None) -> list[tf.Operation]:
    """
    :param var: the variable
    :param fetches: only operations that these need; default: the whole graph
    :return: operations that change the variable; not the one of its initial value
    """
    handle = var_handle_or_ref(var)
    found = [op for op in handle.graph.get_operations() if _updates(op, handle) and op is not var.initializer]
    if fetches is None:
        return found
    needed = _ops_needed_for([_as_op(fetch) for fetch in tf.nest.flatten(fetches)])
    return [op for op in found if op in needed]


def get_variable_value_copy_before_update_ops(var: tf.Variable, update_ops: Sequence[tf.Operation]) -> tf.Tensor:
    """:return: value of the variable as it was before any of the operations has run"""
    with tf.control_dependencies(None):
        value = tf.raw_ops.DeepCopy(x=var.read_value())
    for op in update_ops:
        op._add_control_input(value.op)
    return value


def get_variable_grad_from_update_ops(var: tf.Variable, update_ops: Sequence[tf.Operation]) -> tf.Tensor | None:
    """
    :param var: the variable
    :param update_ops: operations of an optimizer, see `get_var_update_ops`
    :return: the gradient that they get; None if none of them gets one
    """
    for op in update_ops:
        names = [argument.name for argument in op.op_def.input_arg]
        if "grad" in names:
            return op.inputs[names.index("grad")]
        if op.type in ("ApplyGradientDescent", "ResourceApplyGradientDescent"):
            return op.inputs[names.index("delta")]
    assert update_ops, f"{var.name}: no operations"
    return None


def variable_scalar_summaries_dict(x: tf.Tensor | tf.Variable, name: str | None = None) -> dict[str, tf.Tensor]:
    """
    :param x: raw tensor
    :param name: in front of the keys
    :return: mean, standard deviation, largest, smallest value and root mean square: raw scalars by name
    """
    name = name or x.op.name
    value = tf.cast(tf.convert_to_tensor(x), tf.float32)
    mean = tf.reduce_mean(value)
    return {
        f"{name}_mean": mean,
        f"{name}_stddev": tf.sqrt(tf.reduce_mean(tf.square(value - mean))),
        f"{name}_rms": tf.sqrt(tf.reduce_mean(tf.square(value))),
        f"{name}_l2": tf.sqrt(tf.reduce_sum(tf.square(value))),
        f"{name}_max": tf.reduce_max(value),
        f"{name}_min": tf.reduce_min(value),
    }


def variable_summaries(
    var: tf.Tensor | tf.Variable, name: str | None = None, with_histogram: bool = False
) -> tf.Tensor:
    """
    :param var: raw tensor
    :param name: in front of the names
    :param with_histogram: also a histogram of all values
    :return: serialized summary for TensorBoard
    """
    name = name or var.op.name
    summaries = [tf1.summary.scalar(key, value) for key, value in variable_scalar_summaries_dict(var, name).items()]
    if with_histogram and get_ndim(tf.convert_to_tensor(var)) != 0:
        summaries.append(tf1.summary.histogram(f"{name}_histogram", tf.convert_to_tensor(var)))
    return tf1.summary.merge(summaries)


def _updates(op: tf.Operation, handle: tf.Tensor) -> bool:
    changes = op.type in _UPDATE_OPS or op.type.startswith(("ResourceApply", "ResourceSparseApply"))
    return changes and any(x is handle for x in op.inputs)


def _as_op(fetch: Any) -> tf.Operation:
    return fetch if isinstance(fetch, tf.Operation) else fetch.op


def _ops_needed_for(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
    todo, seen = list(ops), set(ops)
    for op in todo:  # grows in here
        for other in (*(x.op for x in op.inputs), *op.control_inputs):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen
