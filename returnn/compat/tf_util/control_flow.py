"""Order of operations, and conditions, on raw tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.outermost_graph import outermost_graph


def cond(
    pred: bool | tf.Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None
) -> Any:
    """:return: true_fn() or false_fn(); if that is known, only this one is called"""
    static = pred if isinstance(pred, bool) else tf.get_static_value(pred)
    if static is not None:
        return true_fn() if static else false_fn()
    return tf.cond(pred, true_fn, false_fn, name=name)


def identity_with_ops(x: tf.Tensor, ops: Callable[[], Sequence[Any]]) -> tf.Tensor:
    """:return: x, after what `ops` makes has run"""
    with tf.control_dependencies(list(ops())):
        return tf.identity(x)


def identity_op_nested(x: Any, name: str = "identity") -> Any:
    """:return: the same nested structure, each tensor through an operation of its own"""
    return tf.nest.map_structure(lambda value: tf.identity(value, name=name), x)


def post_control_dependencies(x: Any, updates: Sequence[Any]) -> Any:
    """:return: nested structure x; the updates run, too, whenever it is computed"""
    with tf.control_dependencies([value.op for value in tf.nest.flatten(x)]), tf.control_dependencies(list(updates)):
        return identity_op_nested(x)


@contextlib.contextmanager
def sequential_control_dependencies(ls: Sequence[Callable[[], Any]]) -> Iterator[None]:
    """
    Operations inside of the `with` block run after those that the functions make, each of which runs after those before
    it.

    :param ls: functions that make an operation or a tensor
    """
    with contextlib.ExitStack() as stack:
        for function in ls:
            stack.enter_context(tf.control_dependencies([function()]))
        yield


def add_control_input(op: tf.Operation, control_input: tf.Operation) -> None:
    """Lets an operation run only after another one."""
    op._add_control_input(control_input)


def enforce_copy(x: tf.Tensor) -> tf.Tensor:
    """:return: x as a tensor of its own, which does not change when the variable does that it may come from"""
    return tf.raw_ops.DeepCopy(x=x)


copy_tensor = enforce_copy


def true_once() -> tf.Tensor:
    """:return: bool scalar: True the first time that it is computed in a session, then False"""
    with outermost_graph():
        first = tf.compat.v1.Variable(True, trainable=False, use_resource=True, name="true_once")
    value = enforce_copy(first.read_value())
    with tf.control_dependencies([value]), tf.control_dependencies([first.assign(False, read_value=False)]):
        return tf.identity(value)


def raise_OutOfRangeError() -> tf.Operation:
    """:return: operation which raises `tf.errors.OutOfRangeError`"""
    queue = tf.compat.v1.FIFOQueue(1, dtypes=[tf.int32])
    with tf.control_dependencies([queue.close()]):
        return queue.dequeue().op


def py_print(
    pass_through_value: tf.Tensor,
    print_args: Sequence[Any],
    message: str | None = None,
    summarize: int | None = None,
    first_n: int | None = None,
    name: str = "py_print",
    file: Any = None,
) -> tf.Tensor:
    """
    :param pass_through_value: is returned
    :param print_args: what is printed
    :param message: in front of it
    :param summarize: so many numbers of each at most
    :param first_n: only so many times
    :param name: of the operation
    :param file: to print to, default: the standard output
    """
    count = [0]

    def show(*values: Any) -> int:
        count[0] += 1
        if first_n is None or count[0] <= first_n:
            texts = [str(value if summarize is None else value.ravel()[:summarize]) for value in values]
            print(*([message] if message else []), *texts, file=file)
        return 0

    with tf.name_scope(name):
        done = tf.numpy_function(show, list(print_args), tf.int64)
        return identity_with_ops(pass_through_value, lambda: [done])
