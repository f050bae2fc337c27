"""Entries of arrays: by index, by mask, by order."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import ndarray

from returnn.frontend._ops.limits import extreme_value

_SEGMENT = {"sum": numpy.add, "max": numpy.maximum, "min": numpy.minimum}


class EntryNumpyOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def gather_raw(raw_tensor: ndarray, indices: ndarray, axis: int, batch_axes: int) -> ndarray:
        """:return: gathered"""
        if indices.size and indices.min() < 0:
            raise IndexError("there is a negative index")  # for NumPy, it would count from the end
        if not batch_axes:
            return numpy.take(raw_tensor, indices, axis=axis)
        rows = numpy.moveaxis(raw_tensor, axis, batch_axes)
        batch = numpy.ogrid[tuple(slice(size) for size in rows.shape[:batch_axes])]
        num_new = indices.ndim - batch_axes
        found = rows[(*(x.reshape(*x.shape, *[1] * num_new) for x in batch), indices)]
        new_axes = range(batch_axes, batch_axes + num_new)  # of (batch..., new..., before..., behind...)
        return numpy.moveaxis(found, list(new_axes), [i + axis - batch_axes for i in new_axes])

    @staticmethod
    def segment_raw(values: ndarray, indices: ndarray, number: Any, mode: str) -> ndarray:
        """:return: reduction over segments; what is left out goes to one more segment, which is cut off"""
        first = 0 if mode == "sum" else extreme_value(values.dtype.name, highest=mode == "min")
        result = numpy.full((int(number) + 1, *values.shape[1:]), first, values.dtype)
        _SEGMENT[mode].at(result, numpy.where(indices < 0, number, indices), values)
        return result[:-1]

    @staticmethod
    def masked_select_raw(raw_tensor: ndarray, mask: ndarray) -> ndarray:
        """:return: selected"""
        return numpy.asarray(raw_tensor[mask])

    @staticmethod
    def masked_scatter_raw(raw_tensor: ndarray, mask: ndarray, backup: ndarray | None) -> ndarray:
        """:return: scattered"""
        result = numpy.zeros((*mask.shape, *raw_tensor.shape[1:]), raw_tensor.dtype)
        if backup is not None:
            result[:] = backup
        result[mask] = raw_tensor[: mask.sum()]
        return result

    @staticmethod
    def search_sorted_raw(sorted_rows: ndarray, values: ndarray, *, side: Any, dtype: str) -> ndarray:
        """:return: positions"""
        found = [numpy.searchsorted(*pair, side=side) for pair in zip(sorted_rows, values, strict=True)]
        return numpy.array(found, dtype).reshape(values.shape)

    @staticmethod
    def sort_raw(raw_tensor: ndarray, axis: int, *, descending: bool, stable: bool) -> tuple[ndarray, ndarray]:
        """:return: sorted values; their indices. Always stable."""
        order = _argsort(raw_tensor, axis, descending)
        return numpy.take_along_axis(raw_tensor, order, axis=axis), order.astype("int32")

    @staticmethod
    def top_k_raw(raw_tensor: ndarray, k: Any, *, sorted: bool) -> tuple[ndarray, ndarray]:
        """:return: the highest values; their indices. Always sorted."""
        order = _argsort(raw_tensor, -1, True)[..., : int(k)]
        return numpy.take_along_axis(raw_tensor, order, axis=-1), order.astype("int32")


def _argsort(array: ndarray, axis: int, descending: bool) -> ndarray:
    """:return: indices, stable: of equal values, the first one comes first in both directions"""
    if not descending:
        return numpy.argsort(array, axis=axis, kind="stable")
    reverse = numpy.argsort(numpy.flip(array, axis=axis), axis=axis, kind="stable")
    return numpy.asarray(array.shape[axis] - 1 - numpy.flip(reverse, axis=axis))
