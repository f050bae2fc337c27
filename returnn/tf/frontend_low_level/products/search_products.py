"""
Matrix products in the frames of a search, of which nobody will ask gradients.

What stands before a product is then free: rows that were put together from parts are not copied, and of a part that
is a sum of frames, such as what attention has found, the product is computed the other way round. With weights `w` of
the frames `e`, and with the rows `m` of the matrix which belong to that part, it is `(w e) m = w (e m)`, and `e m` is
the same in all steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.tf.frontend_low_level.products.outside import computed_with, outside_of_all, packed_matrix
from returnn.tf.frontend_low_level.products.rows_of_batch import Noted, note

tf1 = tf.compat.v1

_NO_GRADIENTS = "_returnn_no_gradients"  # of a body
_MOST_PARTS = 3  # of the rows of an operand
_ROWS = ("ConcatV2", "Reshape")  # operations with which rows are put together
_MIN_FEATURES = 32  # of frames whose sum is a part
_STEPS = 16  # in so many, what is computed before the loop has to be saved
_COST = 2  # of a multiplication in a sum of frames, where that in a matrix product is 1


def is_without_gradients() -> bool:
    """:return: whether this is the body of a loop, in `without_gradients`"""
    return not tf.executing_eagerly() and getattr(tf1.get_default_graph(), _NO_GRADIENTS, False)


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """To be used in the body of a loop: nobody will ask for gradients of what is computed in this context."""
    body: Any = tf1.get_default_graph()
    setattr(body, _NO_GRADIENTS, True)
    try:
        yield
    finally:
        delattr(body, _NO_GRADIENTS)


def search_product(x: tf.Tensor, matrix: Any) -> tf.Tensor | None:
    """
    :param x: (N, K), in the body of a loop without gradients
    :param matrix: (K, M)
    :return: their product; None if there is no better way than that of TensorFlow
    """
    body = tf1.get_default_graph()
    outer = outside_of_all(matrix, body)
    if outer is None or outer.shape.num_elements() is None:
        return None
    packed = packed_matrix(outer)
    if packed is None:
        return None
    parts = _parts_of_rows(x)
    if len(parts) > _MOST_PARTS + 1 or None in [part.shape[-1] for part in parts]:
        parts = [x]
    for i, part in enumerate(parts if len(parts) > 1 else []):
        found = _sum_of_frames(part, body)
        if found is not None:
            return _product_with_sum(parts, i, found, outer, packed)
    return _product(parts if len(parts) <= _MOST_PARTS else [x], packed)


def _parts_of_rows(x: tf.Tensor) -> list[tf.Tensor]:
    """:return: of which the rows of x, along its last axis, were put together; they can have other axes before it"""
    op = x.op
    if op.type == "Reshape" and x.shape[-1] is not None and op.inputs[0].shape.rank:
        before = op.inputs[0]
        return _parts_of_rows(before) if before.shape[-1] == x.shape[-1] and before.op.type in _ROWS else [x]
    if op.type != "ConcatV2" or tf.get_static_value(op.inputs[-1]) not in (-1, x.shape.rank - 1):
        return [x]
    return [part for value in op.inputs[:-1] for part in _parts_of_rows(value)]


def _product(
    parts: Sequence[tf.Tensor], packed: tf.Tensor, sums_of_frames: Mapping[str, tf.Tensor] | None = None
) -> tf.Tensor:
    """
    :param parts: of the rows, each (..., size)
    :param packed: matrix
    :param sums_of_frames: inputs of the kernel for what is added to the product
    :return: (N, M)
    """
    operations = get_operations()
    assert operations is not None
    flat = [part if part.shape.rank == 2 else tf.reshape(part, [-1, part.shape[-1]]) for part in parts]
    if len(flat) > _MOST_PARTS:
        flat = [tf.concat(flat, axis=-1)]
    if len(flat) == 1 and sums_of_frames is None:
        return operations.call("packed_product", {"x": flat[0], "packed": packed})["product"]
    rows = {f"x{i + 1}": part for i, part in enumerate(flat)}
    return operations.call("packed_product_of_parts", {**rows, "packed": packed, **(sums_of_frames or {})})["product"]


# Sums of frames.


@dataclass(frozen=True)
class _SumOfFrames:
    """The same rows as `weights @ frames`."""

    weights: tf.Tensor  # (B, K, S), in the body; or (B, S, K)
    is_by_frame: bool  # the latter
    frames: tf.Tensor  # (B, S, F), outside of all loops

    @property
    def num_rows(self) -> int | None:
        """Of each sequence, such as hypotheses."""
        return self.weights.shape[2 if self.is_by_frame else 1]

    def rows(self) -> tf.Tensor:
        """:return: (N, F)"""
        return tf.reshape(
            tf.matmul(self.weights, self.frames, transpose_a=self.is_by_frame), [-1, self.frames.shape[-1]]
        )

    def inputs_of_kernel(self, products: tf.Tensor) -> dict[str, tf.Tensor]:
        """
        :param products: (B, S, M) of the frames
        :return: for the same sums of these
        """
        return {f"weights_by_{'frame' if self.is_by_frame else 'row'}": self.weights, "frames": products}


def _sum_of_frames(part: tf.Tensor, body: Any) -> _SumOfFrames | None:
    """:return: if the part is one of frames that are the same in all steps"""
    x = part
    while x.op.type == "Reshape" and x.op.inputs[0].shape.rank and x.op.inputs[0].shape[-1] == part.shape[-1]:
        x = x.op.inputs[0]
    if x.op.type != "BatchMatMulV2" or x.op.get_attr("adj_y") or x.graph is not body:
        return None
    weights, frames = x.op.inputs
    if weights.shape.rank != 3 or frames.shape.rank != 3 or part.shape[-1] < _MIN_FEATURES:
        return None
    outer = outside_of_all(frames, body)
    found = None if outer is None else _SumOfFrames(weights, x.op.get_attr("adj_x"), outer)
    return None if found is None or found.num_rows is None else found


def _product_with_sum(
    parts: Sequence[tf.Tensor], index: int, found: _SumOfFrames, matrix: tf.Tensor, packed: tf.Tensor
) -> tf.Tensor:
    """
    :param parts: of the rows
    :param index: of the part that is a sum of frames
    :param found: that part
    :param matrix: (K, M), outside of all loops
    :param packed: the same
    :return: product of the rows with the matrix
    """
    before, behind = parts[:index], parts[index + 1 :]
    begin = sum(part.shape[-1] for part in before)
    end = begin + parts[index].shape[-1]
    packed_others = packed_matrix(computed_with(matrix, lambda m: tf.concat([m[:begin], m[end:]], axis=0)))
    if packed_others is None:
        return _product(parts, packed)
    rows_of_sum = computed_with(matrix, lambda m: m[begin:end])
    pays = computed_with(found.frames, lambda frames: _pays(frames, found.num_rows))
    times = partial(_frames_times, matrix=rows_of_sum, pays=pays)
    products = computed_with(found.frames, times)
    note(Noted(pays))
    note(Noted(products, found.frames, times))
    return tf.cond(
        pays,
        lambda: _product([*before, *behind], packed_others, found.inputs_of_kernel(products)),
        lambda: _product([*before, found.rows(), *behind], packed),  # only then, the sum itself is computed
    )


def _pays(frames: tf.Tensor, num_rows: int) -> tf.Tensor:
    """
    :param frames: (B, S, F)
    :param num_rows: K, of each sequence
    :return: bool scalar: whether less is to be multiplied. For each column and sequence, that is S F once and K S in
        each step, in place of K F in each step
    """
    size = frames.shape[-1]
    num_frames = tf.shape(frames)[1]
    return num_frames * (size + _STEPS * _COST * num_rows) <= _STEPS * num_rows * size


def _frames_times(frames: tf.Tensor, matrix: tf.Tensor, pays: tf.Tensor) -> tf.Tensor:
    """:return: (B, S, M): the frames (B, S, F) times the matrix (F, M); without frames if it does not pay"""
    none = [tf.shape(frames)[0], 0, matrix.shape[1]]
    return tf.cond(pays, lambda: tf.tensordot(frames, matrix, 1), lambda: tf.zeros(none, frames.dtype))
