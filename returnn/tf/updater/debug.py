"""What helps to find out about gradients: summaries, and checks for numbers that are not finite."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from returnn.tf.optimizers.clip import values_of
from returnn.tf.updater.gradient_steps import VariableGradient

_END_OF_V1_CONTROL_FLOW = ("Exit", "RefExit", "Merge", "RefMerge")


def add_gradient_summaries(items: Sequence[VariableGradient]) -> None:
    """Adds summaries for TensorBoard, for those variables where `debug_grad_summaries` is set."""
    for item in items:
        if item.options.gradient.debug_grad_summaries:
            values, name = values_of(item.grad), f"grad/{item.var.op.name}"
            tf.compat.v1.summary.scalar(f"{name}/norm", tf.norm(values))
            tf.compat.v1.summary.scalar(f"{name}/max_abs", tf.reduce_max(tf.abs(values)))
            tf.compat.v1.summary.histogram(name, values)


def check_numerics_ops(tensors: Sequence[tf.Tensor]) -> list[tf.Operation]:
    """
    :param tensors: e.g. loss and gradients
    :return: ops that fail with the name of the first tensor that is not finite, among these and all that they depend
        on. What is inside of a loop counts by its result
    """
    checks: list[tf.Operation] = []
    for tensor in _in_order_of_computation(tensors):
        with tf.control_dependencies(checks[-1:]):  # otherwise, what follows from it may be found before
            checks.append(tf.debugging.check_numerics(tensor, f"{tensor.op.type} {tensor.op.name!r}").op)
    return checks


def _in_order_of_computation(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """:return: those of numbers with a fraction, among these and all that they depend on; each after what it is of"""
    found: list[tf.Tensor] = []
    seen: set[str] = set()
    todo = [(tensor, False) for tensor in tensors]
    while todo:
        tensor, is_after_its_inputs = todo.pop()
        if is_after_its_inputs:
            found.append(tensor)
        elif tensor.name not in seen:
            seen.add(tensor.name)
            if tensor.dtype.is_floating:
                todo.append((tensor, True))
            if tensor.op.type not in _END_OF_V1_CONTROL_FLOW:
                todo.extend((x, False) for x in tensor.op.inputs)
    return found
