"""Frames by index."""

from __future__ import annotations

from functools import reduce

from returnn.frontend._array.convert import cast, where
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.limits import zero_value
from returnn.frontend._ops.operands import fail, require_is_dim
from returnn.frontend.math_ import combine_bc, compare
from returnn.tensor import Dim, Tensor


def gather(source: Tensor, *, indices: Tensor | int, axis: Dim | None = None, clip_to_valid: bool = False) -> Tensor:
    """
    Frames by index: `output[b, t, f] = source[b, indices[b, t], f]`.

    :param source: {batch..., axis, ...}
    :param indices: {batch..., new...}: dims that it shares with the source, other than the axis, are matched.
        Or a number, for one frame.
    :param axis: which the indices are into; default: the sparse dim of the indices
    :param clip_to_valid: bring the indices into the range of the sequence; in an empty one, there are zeros. Otherwise,
        an index outside of it is an error.
    :return: [batch..., (dims of source before axis), new..., (dims of source behind axis)]
    """
    if axis is None:
        axis = indices.sparse_dim if isinstance(indices, Tensor) else None
        if axis is None:
            raise fail(f"gather: {source}: the axis is missing.", "Give it, or indices with a sparse dim.")
    require_is_dim("gather: axis", axis, source)
    if isinstance(indices, Tensor):
        indices = wide_indices(indices)
    if isinstance(indices, Tensor) and not clip_to_valid:
        indices = valid_only(indices, _brought_into_range(indices, axis))
    out = get_backend_of(source, indices).gather(source, indices=indices, axis=axis, clip_to_valid=clip_to_valid)
    if not clip_to_valid or isinstance(indices, int) or axis.size is not None:
        return out
    is_there = compare(axis.get_size_tensor(), ">", 0)
    return where(is_there, out, zero_value(out.dtype), allow_broadcast_all_sources=True)


def wide_indices(indices: Tensor) -> Tensor:
    """:return: indices as int32, if they are of a smaller dtype, for which libraries do not have the operations"""
    return cast(indices, "int32") if indices.dtype in ("int8", "uint8", "int16", "uint16") else indices


def _brought_into_range(indices: Tensor, axis: Dim) -> Tensor | int:
    """:return: what padded frames read: an index that is possible stays as it is, as search may go on beyond the end"""
    if axis.size is None or not _padded_dims(indices):
        return 0
    return combine_bc(combine_bc(indices, "maximum", 0), "minimum", axis.size - 1)


def valid_only(indices: Tensor, value: Tensor | int) -> Tensor:
    """:return: indices with `value` in padded frames, which can hold anything"""
    dims = _padded_dims(indices)
    if not dims:
        return indices
    masks = [dim.get_mask(dim_order=indices.dims) for dim in dims]
    return where(reduce(lambda a, b: combine_bc(a, "logical_and", b, dim_order=indices.dims), masks), indices, value)


def _padded_dims(x: Tensor) -> list[Dim]:
    return [dim for dim in x.dims if dim.need_masking() and _is_aligned(dim, x)]


def _is_aligned(dim: Dim, x: Tensor) -> bool:
    """:return: whether the tensor has all dims which the lengths depend on"""
    lengths = dim.get_size_tensor()
    return all(d in x.dims for d in lengths.dims)
