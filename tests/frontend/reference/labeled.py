"""Arrays with dims as labels of their axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from numpy import ndarray

from returnn.frontend._ops.operands import dtype_of_number
from returnn.tensor import Dim, Tensor


def as_tensor(value: Any, *, like: Tensor | None = None) -> Tensor:
    """:return: operand as tensor; a number takes the dtype of `like`"""
    if isinstance(value, Tensor):
        return value
    dtype = dtype_of_number(value, like=like)
    raw = numpy.asarray(value, dtype=object if dtype == "string" else dtype)
    return Tensor("const", dims=(), dtype=dtype, raw_tensor=raw)


def aligned(x: Tensor, dims: Sequence[Dim]) -> ndarray:
    """:return: array with one axis for each of `dims`, of size 1 where x does not have the dim"""
    order = x.get_out_permutation_to_dims(dims)
    array = numpy.transpose(x.raw_tensor, [i for i in order if i >= 0])
    return array[tuple(numpy.newaxis if i < 0 else slice(None) for i in order)]


def broadcast(x: Tensor, dims: Sequence[Dim]) -> ndarray:
    """:return: array with one axis for each of `dims`, the values repeated where x does not have the dim"""
    array = aligned(x, dims)
    return numpy.broadcast_to(array, [int(dim.get_dim_value()) for dim in dims])


def valid(dims: Sequence[Dim], order: Sequence[Dim]) -> ndarray:
    """:return: bool, with one axis for each of `order`, True where all of `dims` are within their sequences"""
    mask = numpy.ones([1] * len(order), dtype=bool)
    for dim in dims:
        if dim.need_masking():
            mask = mask & aligned(dim.get_mask(), order)
    return mask


def masked(x: Tensor, dims: Sequence[Dim], value: Any) -> ndarray:
    """:return: array in the layout of x, with `value` where `dims` are beyond the end of their sequences"""
    return numpy.where(valid(dims, x.dims), x.raw_tensor, numpy.asarray(value, dtype=x.raw_tensor.dtype))


def memory_sizes(dims: Sequence[Dim]) -> list[int]:
    """:return: the sizes of the axes in memory"""
    return [int(dim.get_dim_value()) for dim in dims]
