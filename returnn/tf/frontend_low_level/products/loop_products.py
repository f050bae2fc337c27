"""
Matrix products in a loop with a matrix that is the same in all frames, such as the weights of a layer.

What TensorFlow would derive adds up the gradient of that matrix frame by frame: a product of few rows in each, and a
sum as large as the matrix. Here, the loop backward only collects the other operand and the gradient of the product of
each frame; the gradient of the matrix is one product of all of them, after the loop.

They are collected in a list of tensors which is a variable of the loop. On the way forward, it is empty and stays so.
Each product hands it on together with its result, and the gradient of that adds the two tensors to the gradient of the
list. What starts as an empty list before the loop depends on all the matrices, as far as gradients are concerned.

The gradient of the other operand is a product with the transposed matrix. It is transposed once, before the loop:
TensorFlow's product with a matrix to be transposed takes up to four times as long for few rows. Where there are native
kernels, matrices are also packed once for their products, which TensorFlow would do in each frame.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.tf.frontend_low_level.products.outside import computed_with, is_outermost, outside, packed_matrix
from returnn.tf.frontend_low_level.products.search_products import is_without_gradients, search_product

tf1 = tf.compat.v1

_COLLECTOR = "_returnn_collector"
_MATRICES = "_returnn_matrices"  # of a body: the matrix outside of the loop for each product, by its name
_OF_OPERAND, _OF_MATRIX = "ReturnnOperandInLoop", "ReturnnMatrixOfLoop"  # names of gradients
_MIN_ENTRIES = 2**12  # of the matrix. The sum of smaller ones takes no time


@dataclass(frozen=True)
class _Product:
    """A product in the loop."""

    matrix: tf.Tensor  # (..., K, N), or (..., N, K): the one that is the same in all frames, outside of the loop
    is_transposed: bool
    num_rows: int | None  # of the other operand in a frame, for each entry of the batch; None without batch


class GradientCollector:
    """Collects what the gradients of matrices need, in a loop that is being made."""

    def __init__(self, dtype: str) -> None:
        """
        To be made in the graph around the loop.

        :param dtype: of the matrices
        """
        self.dtype = tf.as_dtype(dtype)
        self.initial = _empty_list(self.dtype)  # the variable of the loop, before the first frame
        self._products: list[_Product] = []
        self._handle: tf.Tensor | None = None

    @contextlib.contextmanager
    def frame(self, handle: tf.Tensor) -> Iterator[None]:
        """
        The products in this context, in the body of the loop, are collected.

        :param handle: the variable of the loop, before the frame
        """
        body = tf1.get_default_graph()
        self._products, self._handle = [], handle
        setattr(body, _COLLECTOR, self)
        setattr(body, _MATRICES, {})
        try:
            yield
        finally:
            delattr(body, _COLLECTOR)

    def after_frame(self) -> tf.Tensor:
        """:return: the variable of the loop, after the frame"""
        assert self._handle is not None, "no frame"
        return self._handle

    def finish(self, final: tf.Tensor) -> None:
        """
        To be called when the loop is made.

        :param final: the variable of the loop, after the last frame
        """
        if self._products:
            loop = final.op if final.op.type in _LOOPS else final.op.inputs[0].op
            assert loop.type in _LOOPS, loop.type
            index = next(i for i, x in enumerate(loop.inputs) if x is self.initial)
            with tf.control_dependencies(None):
                loop._update_input(index, _stand_in(self._products, self.dtype))

    def product(self, x: tf.Tensor, matrix: Any, found: _Product) -> tf.Tensor:
        """
        :param x: of this frame
        :param matrix: in the loop
        :param found: the same outside of it
        :return: the product
        """
        self._products.append(found)
        body: Any = tf1.get_default_graph()
        can_be_packed = not found.is_transposed and len(found.matrix.shape) == 2
        overridden = dict.fromkeys(("MatMul", "BatchMatMulV2", "ReturnnPackedProduct"), _OF_OPERAND)
        with body.gradient_override_map({**overridden, "IdentityN": _OF_MATRIX}):
            packed = packed_matrix(found.matrix) if can_be_packed else None
            if packed is None:
                product = tf.matmul(x, found.matrix, transpose_b=found.is_transposed)
            else:
                product = get_operations().call("packed_product", {"x": x, "packed": packed})["product"]
            if can_be_packed:
                getattr(body, _MATRICES)[product.op.name] = found.matrix
            product, self._handle = tf.raw_ops.IdentityN(input=[product, self._handle])
        return product


_LOOPS = ("While", "StatelessWhile")


def matmul(a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False) -> tf.Tensor:
    """
    Like `tf.matmul`.

    :param a: (..., M, K), or (..., K, M) to be transposed
    :param b: (..., K, N), or (..., N, K) to be transposed
    """
    graph: Any = None if tf.executing_eagerly() else tf1.get_default_graph()
    collector = getattr(graph, _COLLECTOR, None)
    if collector is not None and not transpose_a and _can_wait(a, b, collector.dtype):
        matrix = outside(b, graph)
        if matrix is not None and outside(a, graph) is None:
            return collector.product(a, b, _Product(matrix, transpose_b, None if len(a.shape) == 2 else a.shape[1]))
    if is_without_gradients() and not (transpose_a or transpose_b) and len(a.shape) == len(b.shape) == 2:
        product = search_product(a, b)
        if product is not None:
            return product
    return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _can_wait(x: Any, matrix: Any, dtype: tf.DType) -> bool:
    """:return: whether what the gradient needs can be collected, and it is worth it"""
    if isinstance(x, tf.Variable) or x.dtype != dtype or x.shape.rank != matrix.shape.rank:
        return False
    if x.shape.rank == 2:
        return matrix.shape.num_elements() is not None and matrix.shape.num_elements() >= _MIN_ENTRIES
    return x.shape.rank == 3 and x.shape[1] is not None  # each frame has as many rows for each entry of the batch


@tf.RegisterGradient(_OF_OPERAND)
def _gradient_of_operand(op: tf.Operation, gradient: tf.Tensor) -> list[tf.Tensor | None]:
    matrix = getattr(op.graph, _MATRICES, {}).get(op.name)
    if matrix is not None and is_outermost(matrix):
        packed = packed_matrix(matrix, transposed=True)
        if packed is not None:
            return [get_operations().call("packed_product", {"x": gradient, "packed": packed})["product"], None]
        return [tf.matmul(gradient, computed_with(matrix, tf.transpose)), None]
    is_transposed = op.get_attr("transpose_b" if op.type == "MatMul" else "adj_y")
    return [tf.matmul(gradient, op.inputs[1], transpose_b=not is_transposed), None]


@tf.RegisterGradient(_OF_MATRIX)
def _gradient_of_matrix(op: tf.Operation, gradient: tf.Tensor, collected: tf.Tensor) -> list[tf.Tensor]:
    operand = op.inputs[0].op.inputs[0]
    return [gradient, _pushed(_pushed(collected, operand), gradient)]


def _pushed(items: tf.Tensor, item: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.TensorListPushBack(input_handle=items, tensor=item)


def _empty_list(dtype: tf.DType) -> tf.Tensor:
    return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=dtype)


def _stand_in(products: list[_Product], dtype: tf.DType) -> tf.Tensor:
    """:return: an empty list. From its gradient, that of all matrices is computed"""

    @tf.custom_gradient
    def list_for(*matrices: tf.Tensor) -> Any:
        def gradient(collected: tf.Tensor) -> list[tf.Tensor]:
            # The gradient of a frame begins with its last product.
            pairs = _separate(collected, 2 * len(products), dtype)[::-1]
            return [
                _gradient_after_loop(product, operands, gradients)
                for product, gradients, operands in zip(products, pairs[::2], pairs[1::2], strict=True)
            ]

        return _empty_list(dtype), gradient

    return list_for(*(product.matrix for product in products))


def _gradient_after_loop(product: _Product, operands: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
    """
    :param product: in the loop
    :param operands: list of the operand of each frame
    :param gradients: list of the gradient of the product of each frame
    :return: gradient of the matrix
    """
    *batch, size_in, size_out = tf.unstack(tf.shape(product.matrix))
    if product.is_transposed:
        size_in, size_out = size_out, size_in
    rows = -1 if product.num_rows is None else product.num_rows
    x = _all_rows(operands, [*batch, rows, size_in], product.matrix.dtype)
    dy = _all_rows(gradients, [*batch, rows, size_out], product.matrix.dtype)
    return tf.matmul(dy, x, transpose_a=True) if product.is_transposed else tf.matmul(x, dy, transpose_a=True)


def _separate(items: tf.Tensor, number: int, dtype: tf.DType) -> list[tf.Tensor]:
    """
    :param items: list with that many items of each frame, one frame after the other
    :param number: of items in a frame
    :param dtype: of the items
    :return: for each of the items in a frame, list of it in all frames
    """
    length = tf.raw_ops.TensorListLength(input_handle=items)

    def frame(start: tf.Tensor, *lists: tf.Tensor) -> tuple[tf.Tensor, ...]:
        found = [
            tf.raw_ops.TensorListGetItem(input_handle=items, index=start + i, element_shape=-1, element_dtype=dtype)
            for i in range(number)
        ]
        return start + number, *(_pushed(one, item) for one, item in zip(lists, found, strict=True))

    first = (tf.constant(0), *(_empty_list(dtype) for _ in range(number)))
    return list(tf1.while_loop(lambda start, *_: start < length, frame, first)[1:])


def _all_rows(items: tf.Tensor, shape: list[Any], dtype: tf.DType) -> tf.Tensor:
    """
    :param items: list of (rows, size), with any number of rows, or of (batch, rows, size)
    :param shape: of an item, with -1 for what is not known
    :param dtype: of the items
    :return: (N, size), or (batch, N, size)
    """
    if len(shape) == 2:
        no_lengths = tf.zeros([0], tf.int64)
        return tf.raw_ops.TensorListConcatV2(
            input_handle=items, element_shape=shape, leading_dims=no_lengths, element_dtype=dtype
        )[0]
    frames = tf.raw_ops.TensorListStack(input_handle=items, element_shape=shape, element_dtype=dtype)
    batch, num_rows, size = shape
    return tf.reshape(tf.transpose(frames, [1, 0, 2, 3]), [batch, tf.shape(frames)[0] * num_rows, size])
