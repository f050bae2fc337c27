"""Gradients that are collected over several steps, before the variables are updated once."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from returnn.tf.optimizers.base import Gradient, new_variable, to_dense


def accum_grad_multiple_step(
    grad: Gradient, var: tf.Variable, train_step: tf.Tensor, num_accum_steps: int
) -> tf.Tensor:
    """
    Adds up the gradients of a variable, in a variable `<name>/accum_grad` of its own.

    :param grad: of this step
    :param var: whose gradient it is
    :param train_step: number of this step, from 0; the sum starts anew where it is a multiple of `num_accum_steps`
    :param num_accum_steps: how many steps belong together
    :return: sum of the gradients since then, with this step
    """
    return add_to_accumulator(grad, var, new_accumulator(var), train_step, num_accum_steps)


def new_accumulator(var: tf.Variable) -> tf.Variable:
    """:return: variable for the sum of the gradients of `var`, named after it"""
    return new_variable(f"{var.op.name}/accum_grad", shape=var.shape, dtype=var.dtype.base_dtype, device=var.device)


def add_to_accumulator(
    grad: Gradient, var: tf.Variable, accum: tf.Variable, train_step: tf.Tensor, num_accum_steps: int
) -> tf.Tensor:
    """The same, with a given variable for the sum."""
    dense = to_dense(grad, var)
    is_first = tf.equal(train_step % num_accum_steps, 0)
    total = tf.where(is_first, dense, accum.read_value() + dense)
    with tf.control_dependencies([accum.assign(total, read_value=False)]):
        return tf.identity(total)


def apply_every(
    num_steps: int, train_step: tf.Tensor, apply: Callable[[], tf.Operation], *, after: list[tf.Tensor]
) -> tf.Operation:
    """
    :param num_steps: how many steps belong together
    :param train_step: number of this step, from 0
    :param apply: builds the op that runs in the last of them
    :param after: runs in every step, and before
    :return: the op to run in every step
    """
    is_last = tf.equal(train_step % num_steps, num_steps - 1)

    def apply_now() -> tf.Tensor:
        with tf.control_dependencies([apply()]):
            return tf.constant(True)

    with tf.control_dependencies(after):
        return tf.group(tf.cond(is_last, apply_now, lambda: tf.constant(False)))
