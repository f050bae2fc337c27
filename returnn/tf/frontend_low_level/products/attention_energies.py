"""
Energies of attention in a loop: the product of `tanh(a + b + feedback w)` with a vector by one operation.

It is found by how its operand was computed, so any layers that compute this are meant. What it takes the place of
remains in the graph without a reader, and so does not run, unless something else needs it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations, is_in_loop
from returnn.tf.frontend_low_level.products.outer_product import operands_of_outer_product

_RANK = 4  # of the sums: up to three axes, such as frames, sequences and beam, and that of the product


def attention_energies(x: Any, matrix: Any) -> tf.Tensor | None:
    """
    :param x: (N, A)
    :param matrix: (A, 1)
    :return: their product (N, 1); None if the operation is not for this
    """
    if not tf.is_tensor(x) or matrix.shape.rank != 2 or matrix.shape[1] != 1 or not is_in_loop():
        return None
    tanh = x.op.inputs[0] if x.op.type == "Reshape" else x
    if tanh.op.type != "Tanh" or tanh.shape.rank is None or not 2 <= tanh.shape.rank <= _RANK:
        return None
    if tanh.shape[-1] is None or tanh.shape[-1] != matrix.shape[0] or not has_operations(x.dtype):
        return None
    return _by_operation(tanh.op.inputs[0], tf.reshape(tf.convert_to_tensor(matrix), [-1]))


def _by_operation(total: tf.Tensor, v: tf.Tensor) -> tf.Tensor | None:
    """
    :param total: of this, tanh is computed
    :param v: (A,)
    """
    terms = _terms(total)
    products = [(i, found) for i, term in enumerate(terms) if (found := _feedback(term, total)) is not None]
    if products:
        index, (feedback, weights) = products[0]
        del terms[index]
    if len(terms) != 2 or any(term.shape.rank is None for term in terms):
        return None
    terms = [_with_leading_axes(term, _RANK) for term in terms]
    if not products:
        shapes = [tf.shape(term)[:-1] for term in terms]
        feedback, weights = tf.zeros(tf.broadcast_dynamic_shape(*shapes), v.dtype), tf.zeros_like(v)
    operations = get_operations()
    assert operations is not None
    inputs = {
        "feedback": _with_leading_axes(feedback, _RANK - 1),
        "feedback_weights": weights,
        "a": terms[0],
        "b": terms[1],
        "v": v,
    }
    return tf.reshape(operations.call("attention_energies", inputs)["energies"], [-1, 1])


def _terms(total: tf.Tensor) -> list[tf.Tensor]:
    """:return: those of a sum, as far as they are summed up with all axes"""
    if total.op.type != "AddV2":
        return [total]
    terms = []
    for term in total.op.inputs:
        is_sum = term.op.type == "AddV2" and term.shape.rank == total.shape.rank and 1 not in term.shape
        terms += _terms(term) if is_sum else [term]
    return terms


def _feedback(term: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor] | None:
    """:return: if this is x[..., None] * weights, with all axes of the sum: x, and weights (A,)"""
    found = operands_of_outer_product(term.op.inputs[0]) if term.op.type == "Reshape" else None
    if found is None:
        return None
    column, row = found
    x = column.op.inputs[0] if column.op.type == "Reshape" else column
    if not x.shape.rank == term.shape.rank == total.shape.rank or x.shape[-1] != 1 or 1 in x.shape[:-1]:
        return None
    return tf.squeeze(x, axis=-1), tf.reshape(row, [-1])


def _with_leading_axes(x: tf.Tensor, rank: int) -> tf.Tensor:
    """:return: the same with axes of size 1 before the others"""
    if x.shape.rank == rank - 1:
        return tf.expand_dims(x, 0)
    missing = rank - x.shape.rank
    return tf.reshape(x, tf.concat([[1] * missing, tf.shape(x)], axis=0)) if missing else x
