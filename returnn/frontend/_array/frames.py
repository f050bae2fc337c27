"""Frames by their position in each sequence. Several operations are made of this."""

from __future__ import annotations

from typing import Any

from returnn.frontend._array.convert import where
from returnn.frontend._backend import get_backend_of
from returnn.frontend.math_ import combine_bc, compare_bc, logical_and
from returnn.tensor import Dim, Tensor


def take_frames(
    source: Tensor, axis: Dim, *, position: Tensor, fill_value: Any = 0, lengths: Tensor | int | None = None
) -> Tensor:
    """
    :param source: {..., axis}
    :param axis: with the frames
    :param position: {..., out_dim}, can lie outside of the sequence
    :param fill_value: for positions outside
    :param lengths: of the sequences; default: those of the axis
    :return: {..., out_dim}
    """
    lengths = axis.get_size_tensor_or_int() if lengths is None else lengths
    is_inside = compare_bc(position, "<", lengths)
    is_inside = logical_and(is_inside, compare_bc(position, ">=", 0, dim_order=is_inside.dims))
    index = where(is_inside, position, 0)
    backend = get_backend_of(source, index)
    found = backend.gather(source, indices=index, axis=axis)
    return backend.where(is_inside, found, fill_value, allow_broadcast_all_sources=True)


def clipped(position: Tensor, axis: Dim) -> Tensor:
    """:return: position, brought into the range of the sequence"""
    lengths = axis.get_size_tensor_or_int()
    last = lengths - 1 if isinstance(lengths, int) else combine_bc(lengths, "-", 1)
    return combine_bc(combine_bc(position, "min", last), "max", 0)
