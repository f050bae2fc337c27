"""Operations which change dims and keep values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._backends.template import TemplateBackend
from returnn.frontend._ops.axes import axes_of
from returnn.frontend._out_dims import merged_in_memory
from returnn.tensor import Dim, Tensor
from tests.frontend.reference.labeled import aligned, as_tensor, broadcast, memory_sizes, valid

_PAD_MODES = {"replicate": "edge", "circular": "wrap"}  # the names in numpy, where they differ


class ShapeReferenceOps:
    """For the meaning of the operations see `returnn.frontend._ops`."""

    @classmethod
    def merge_dims(cls, source: Tensor, *, dims: Sequence[Dim], out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
        """:return: merged, out dim"""
        out_dim = out_dim or merged_in_memory(dims)
        return cls.reshape(source, dims, [out_dim]), out_dim

    @classmethod
    def split_dims(
        cls,
        source: Tensor,
        *,
        axis: Dim,
        dims: Sequence[Dim],
        pad_to_multiples: bool | None = None,
        pad_value: Any = None,
    ) -> Tensor:
        """:return: split"""
        missing = numpy.prod(memory_sizes(dims)) - axis.get_dim_value()
        if pad_to_multiples and missing:
            padded = Dim(None, name="padded")
            padded.dyn_size_ext = as_tensor(axis.get_dim_value() + missing)
            source = cls.pad(
                source, axes=[axis], padding=[(0, int(missing))], out_dims=[padded], handle_dynamic_dims=False,
                value=pad_value,
            )  # fmt: skip
            axis = padded
        return cls.reshape(source, [axis], dims)

    @staticmethod
    def reshape(source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Tensor:
        """:return: reshaped"""
        out = TemplateBackend.reshape(source, in_dims, out_dims)
        axes = axes_of(source, in_dims)
        before = [i for i in range(len(source.dims)) if i not in axes and i < min(axes)]
        behind = [i for i in range(len(source.dims)) if i not in axes and i > min(axes)]
        raw = numpy.transpose(source.raw_tensor, [*before, *axes, *behind])
        out.raw_tensor = raw.reshape(memory_sizes(out.dims))
        return out

    @staticmethod
    def replace_dim(source: Tensor, *, in_dim: Dim, out_dim: Dim) -> Tensor:
        """:return: source with another dim"""
        out = TemplateBackend.replace_dim(source, in_dim=in_dim, out_dim=out_dim)
        out.raw_tensor = source.raw_tensor
        return out

    @staticmethod
    def set_sparse_dim(source: Tensor, sparse_dim: Dim | None) -> Tensor:
        """:return: source with another sparse dim"""
        out = TemplateBackend.set_sparse_dim(source, sparse_dim)
        out.raw_tensor = source.raw_tensor
        return out

    @staticmethod
    def concat(*sources: tuple[Tensor, Dim], allow_broadcast: bool = False, out_dim: Dim) -> Tensor:
        """:return: concatenated"""
        out = TemplateBackend.concat(*sources, allow_broadcast=allow_broadcast, out_dim=out_dim)
        arrays = [broadcast(x, [dim if d is out_dim else d for d in out.dims]) for x, dim in sources]
        out.raw_tensor = numpy.concatenate(arrays, axis=next(i for i, d in enumerate(out.dims) if d is out_dim))
        return out

    @staticmethod
    def split(source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
        """:return: pieces"""
        outs = TemplateBackend.split(source, axis=axis, out_dims=out_dims)
        ends = numpy.cumsum(memory_sizes(out_dims))
        pieces = numpy.split(source.raw_tensor, ends[:-1], axis=source.get_axis_from_description(axis))
        for out, piece in zip(outs, pieces, strict=True):
            out.raw_tensor = piece
        return outs

    @staticmethod
    def stack(sources: Sequence[Tensor], *, out_dim: Dim) -> Tensor:
        """:return: stacked"""
        out = TemplateBackend.stack(sources, out_dim=out_dim)
        out.raw_tensor = numpy.stack([aligned(x, out.dims[1:]) for x in sources])
        return out

    @staticmethod
    def unstack(source: Tensor, *, axis: Dim) -> tuple[Tensor, ...]:
        """:return: entries"""
        outs = TemplateBackend.unstack(source, axis=axis)
        for i, out in enumerate(outs):
            out.raw_tensor = numpy.take(source.raw_tensor, i, axis=source.get_axis_from_description(axis))
        return outs

    @staticmethod
    def pad(
        source: Tensor,
        *,
        axes: Sequence[Dim],
        padding: Sequence[tuple[Dim | int, Dim | int]],
        out_dims: Sequence[Dim],
        handle_dynamic_dims: bool,
        mode: str = "constant",
        value: Any = None,
    ) -> Tensor:
        """:return: padded: one axis after the other, one sequence after the other"""
        out = TemplateBackend.pad(
            source, axes=axes, padding=padding, out_dims=out_dims, handle_dynamic_dims=handle_dynamic_dims, mode=mode,
            value=value,
        )  # fmt: skip
        dims, array = list(source.dims), source.raw_tensor
        for axis, out_dim, amounts in zip(axes, out_dims, padding, strict=True):
            number = source.get_axis_from_description(axis)
            counts_lengths = handle_dynamic_dims and (mode != "constant" or amounts[1] != 0)
            mask = valid([axis] if counts_lengths else [], dims)
            dims[number] = out_dim
            left, right = (side.get_dim_value() if isinstance(side, Dim) else side for side in amounts)
            others = [dim for i, dim in enumerate(dims) if i != number]
            fill = aligned(as_tensor(0 if value is None else value, like=source), others)
            array = _pad_axis(array, numpy.broadcast_to(mask, array.shape), number, left, right, mode, fill)
        out.raw_tensor = array
        return out

    @staticmethod
    def slice(
        source: Tensor,
        *,
        axis: Dim,
        start: Any = None,
        end: Any = None,
        step: Any = None,
        size: Any = None,
        out_dim: Dim,
    ) -> Tensor:
        """:return: slice of the axis in memory"""
        out = TemplateBackend.slice(source, axis=axis, start=start, end=end, step=step, size=size, out_dim=out_dim)
        number = source.get_axis_from_description(axis)
        end = end.get_dim_value() if isinstance(end, Dim) else end
        out.raw_tensor = source.raw_tensor[(*[slice(None)] * number, slice(start, end, step))]
        return out

    @staticmethod
    def flip_no_mask(source: Tensor, *, axis: Dim) -> Tensor:
        """:return: flipped"""
        out = TemplateBackend.flip_no_mask(source, axis=axis)
        out.raw_tensor = numpy.flip(source.raw_tensor, axis=source.get_axis_from_description(axis))
        return out


def _pad_axis(
    array: numpy.ndarray, mask: numpy.ndarray, axis: int, left: int, right: int, mode: str, value: numpy.ndarray
) -> numpy.ndarray:
    """:return: array with each row along the axis padded, where only the frames in the mask belong to the row"""
    rows, masks = numpy.moveaxis(array, axis, -1), numpy.moveaxis(mask, axis, -1)
    result = numpy.zeros((*rows.shape[:-1], left + rows.shape[-1] + right), dtype=array.dtype)
    values = numpy.broadcast_to(value, rows.shape[:-1])
    for index in numpy.ndindex(rows.shape[:-1]):
        row = rows[index][masks[index]]
        if len(row) or mode == "constant":
            options = {"constant_values": values[index]} if mode == "constant" else {}
            new = numpy.pad(row, (left, right), mode=_PAD_MODES.get(mode, mode), **options)  # type: ignore[call-overload]
            result[index][: len(new)] = new
    return numpy.moveaxis(result, -1, axis)
