"""Operations which pick values, one at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._backends.template import TemplateBackend
from returnn.frontend._ops.limits import extreme_value
from returnn.frontend._ops.operands import as_dims
from returnn.tensor import Dim, Tensor
from tests.frontend.reference.labeled import aligned, broadcast, memory_sizes


class SelectReferenceOps:
    """For the meaning of the operations see `returnn.frontend._ops`."""

    @staticmethod
    def gather(source: Tensor, *, indices: Tensor | int, axis: Dim, clip_to_valid: bool = False) -> Tensor:
        """:return: gathered"""
        out = TemplateBackend.gather(source, indices=indices, axis=axis, clip_to_valid=clip_to_valid)
        number = source.get_axis_from_description(axis)
        if isinstance(indices, int):
            out.raw_tensor = numpy.take(source.raw_tensor, indices, axis=number)
            return out
        rows = numpy.moveaxis(source.raw_tensor, number, -1)
        row_dims = [dim for i, dim in enumerate(source.dims) if i != number]
        result = numpy.zeros(memory_sizes(out.dims), dtype=rows.dtype)
        for position in numpy.ndindex(result.shape):
            place = dict(zip(out.dims, position, strict=True))
            index = int(indices.raw_tensor[tuple(place[dim] for dim in indices.dims)])
            if clip_to_valid:
                index = max(min(index, _length_at(axis, place) - 1), 0)
            if rows.shape[-1] or not clip_to_valid:
                result[position] = rows[tuple(place[dim] for dim in row_dims)][index]
        out.raw_tensor = result
        return out

    @staticmethod
    def scatter(
        source: Tensor,
        *,
        indices: Tensor,
        indices_dim: Dim | Sequence[Dim],
        mode: str,
        fill_value: Any,
        out_dim: Dim | Sequence[Dim],
    ) -> Tensor:
        """:return: scattered"""
        out = TemplateBackend.scatter(
            source, indices=indices, indices_dim=indices_dim, mode=mode, fill_value=fill_value, out_dim=out_dim
        )
        operation = {"sum": numpy.add, "max": numpy.maximum, "min": numpy.minimum}[mode]
        batch = [dim for dim in indices.dims if dim not in as_dims(indices_dim)]
        rest = [dim for dim in source.dims if dim not in indices.dims]
        values = aligned(source, [*indices.dims, *rest])
        sizes = memory_sizes(out.dims)
        flat = numpy.full(
            (*sizes[: len(batch)], int(numpy.prod(memory_sizes(as_dims(out_dim)))), *memory_sizes(rest)), 0
        )
        flat = flat.astype(source.raw_tensor.dtype)
        found = numpy.zeros(flat.shape[: len(batch) + 1], dtype=bool)
        for position in numpy.ndindex(indices.raw_tensor.shape):
            index = int(indices.raw_tensor[position])
            target = (*(position[indices.dims.index(dim)] for dim in batch), index)
            if index >= 0:
                flat[target] = operation(flat[target], values[position]) if found[target] else values[position]
                found[target] = True
        flat[~found] = fill_value
        out.raw_tensor = flat.reshape(sizes)
        return out

    @staticmethod
    def masked_select(
        tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """:return: selected frames, out dim"""
        out, out_dim = TemplateBackend.masked_select(tensor, mask=mask, dims=dims, out_dim=out_dim)
        value = aligned(tensor, [*dims, *out.dims[1:]])[aligned(mask, dims)]
        if out_dim.size is None and out_dim.dyn_size is None:
            out_dim.dyn_size_ext = Tensor("lengths", dims=(), dtype="int32", raw_tensor=numpy.int32(len(value)))
        out.raw_tensor = value
        return out, out_dim

    @staticmethod
    def masked_scatter(
        source: Tensor, backup: Tensor | None = None, *, mask: Tensor, dims: Sequence[Dim], in_dim: Dim
    ) -> Tensor:
        """:return: scattered"""
        out = TemplateBackend.masked_scatter(source, backup, mask=mask, dims=dims, in_dim=in_dim)
        result = numpy.zeros(memory_sizes(out.dims), dtype=source.raw_tensor.dtype)
        if backup is not None:
            result[:] = aligned(backup, out.dims)
        where = aligned(mask, dims)
        result[where] = aligned(source, [in_dim, *out.dims[len(dims) :]])[: where.sum()]
        out.raw_tensor = result
        return out

    @staticmethod
    def search_sorted(
        sorted_seq: Tensor, values: Tensor, *, axis: Dim, side: str = "left", out_dtype: str = "int32"
    ) -> Tensor:
        """:return: positions"""
        out = TemplateBackend.search_sorted(sorted_seq, values, axis=axis, side=side, out_dtype=out_dtype)
        rows = broadcast(sorted_seq, [*out.dims, axis])
        wanted = broadcast(values, out.dims)
        result = numpy.zeros(wanted.shape, dtype=out_dtype)
        for position in numpy.ndindex(result.shape):
            result[position] = numpy.searchsorted(rows[position], wanted[position], side=side)  # type: ignore[call-overload]
        out.raw_tensor = result
        return out

    @staticmethod
    def sort(source: Tensor, *, axis: Dim, descending: bool, stable: bool) -> tuple[Tensor, Tensor]:
        """:return: sorted values; their indices. Always stable."""
        values, indices = TemplateBackend.sort(source, axis=axis, descending=descending, stable=stable)
        number = source.get_axis_from_description(axis)
        order = _argsort(source.raw_tensor, number, descending)
        values.raw_tensor = numpy.take_along_axis(source.raw_tensor, order, axis=number)
        indices.raw_tensor = order.astype("int32")
        return values, indices

    @staticmethod
    def top_k(
        source: Tensor, *, axis: Dim | Sequence[Dim], k: int | Tensor, k_dim: Dim | None = None, sorted: bool = True
    ) -> tuple[Tensor, Tensor | Sequence[Tensor], Dim]:
        """:return: the highest values; their indices; k_dim. Always sorted."""
        values, indices, k_dim = TemplateBackend.top_k(source, axis=axis, k=k, k_dim=k_dim, sorted=sorted)
        axes = as_dims(axis)
        array = aligned(source, [*values.dims[:-1], *axes])
        count, size = int(k.raw_tensor) if isinstance(k, Tensor) else k, math.prod(memory_sizes(axes))
        array = array.reshape(*memory_sizes(values.dims[:-1]), size)
        missing = [*[(0, 0)] * (array.ndim - 1), (0, max(count - size, 0))]
        array = numpy.pad(array, missing, constant_values=extreme_value(source.dtype, highest=False))
        order = _argsort(array, -1, True)[..., :count]
        values.raw_tensor = numpy.take_along_axis(array, order, axis=-1)
        parts = numpy.unravel_index(numpy.clip(order, 0, max(size - 1, 0)), numpy.maximum(memory_sizes(axes), 1))
        for index, part in zip(indices if not isinstance(indices, Tensor) else [indices], parts, strict=True):
            index.raw_tensor = part.astype("int32")
        return values, indices, k_dim


def _argsort(array: numpy.ndarray, axis: int, descending: bool) -> numpy.ndarray:
    """:return: indices, stable: of equal values, the first one comes first in both directions"""
    if not descending:
        return numpy.argsort(array, axis=axis, kind="stable")
    reverse = numpy.argsort(numpy.flip(array, axis=axis), axis=axis, kind="stable")
    return numpy.asarray(array.shape[axis] - 1 - numpy.flip(reverse, axis=axis))


def _length_at(dim: Dim, place: dict[Dim, int]) -> int:
    """:return: length of the sequence at this place"""
    lengths = dim.get_size_tensor()
    return int(lengths.raw_tensor[tuple(place[d] for d in lengths.dims)])
