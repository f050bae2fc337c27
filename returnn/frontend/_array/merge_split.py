"""Several dims as one, and one as several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array.convert import expand_dim
from returnn.frontend._array.frames import take_frames
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail, require_dims, shown
from returnn.frontend._out_dims import has_gaps, out_dim_for, parts_of_merged, product_dim
from returnn.frontend._ranges import positions
from returnn.frontend.math_ import combine_bc, maximum
from returnn.tensor import Dim, Tensor


def merge_dims(source: Tensor, *, dims: Sequence[Dim], out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """
    Several dims as one: `[B, W, H, F]` with dims `[W, H]` becomes `[B, W*H, F]`.

    The frames of each sequence stay together: if one of the inner dims has sequences of different lengths, padded
    frames between them are left out. If the lengths of a dim depend on another one of them, as with batch and time,
    then the result has all frames in memory, also padded ones, and `split_dims` brings back the dims; to leave them
    out, see `pack_padded`.

    :param source: {..., dims...}
    :param dims: the first one is the outermost
    :param out_dim: the new dim; default: their product
    :return: {..., out_dim}; out_dim
    """
    require_dims("merge_dims", source, dims)
    if len(dims) == 1 and out_dim is None:
        return source, dims[0]
    parts = parts_of_merged(dims)
    out_dim = out_dim_for("merge_dims", out_dim, product_dim(parts))
    if not dims:
        return expand_dim(source, out_dim), out_dim
    backend = get_backend_of(source)
    if not has_gaps(parts) or _is_without_lengths(backend.name, dims):
        return backend.merge_dims(source, dims=dims, out_dim=out_dim)
    with_gaps, in_memory = backend.merge_dims(source, dims=dims)
    position = _position_with_gaps(out_dim, parts)
    return get_backend_of(source, position).gather(with_gaps, indices=position, axis=in_memory), out_dim


def _is_without_lengths(backend: str | None, dims: Sequence[Dim]) -> bool:
    """:return: whether it is a template, without lengths of sequences, so that nothing can be left out"""
    return backend == "template" and any(dim.size is None and dim.dyn_size_ext is None for dim in dims)


def split_dims(
    source: Tensor,
    *,
    axis: Dim,
    dims: Sequence[Dim],
    pad_to_multiples: bool | None = None,
    pad_value: Any = None,
    use_mask: bool = True,
) -> Tensor:
    """
    One dim as several, the inverse of `merge_dims`.

    :param source: {..., axis}
    :param axis: to split
    :param dims: the new dims, the first one is the outermost. One of them can have no size yet, it follows.
    :param pad_to_multiples: fill up the axis so that it can be split. Default: if it has no fixed size.
    :param pad_value: to fill it up with, behind the end of each sequence; default 0
    :param use_mask: otherwise it is filled up behind the longest sequence, and padded frames before stay as they are
    :return: {..., dims...}
    """
    require_dims("split_dims", source, [axis])
    is_padded = axis.size is None if pad_to_multiples is None else pad_to_multiples
    _complete(source, axis, dims, is_padded)
    parts = parts_of_merged(dims)
    product = product_dim(parts)
    is_padded = is_padded and product != axis and (product.size is None or product.size != axis.size)
    if has_gaps(parts):
        return take_frames(
            source, axis, position=_position_without_gaps(parts), fill_value=0 if pad_value is None else pad_value
        )
    if use_mask and is_padded and axis.need_masking():
        source = source.copy_masked(0 if pad_value is None else pad_value, dims=[axis])
    return get_backend_of(source).split_dims(
        source, axis=axis, dims=dims, pad_to_multiples=is_padded, pad_value=pad_value
    )


def reshape(source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Tensor:
    """
    Some dims as some others, in the order of the values in memory, which includes padded frames.

    :param source: {..., in_dims...}
    :param in_dims: the first one is the outermost
    :param out_dims: the first one is the outermost; all have sizes
    :return: {..., out_dims...}
    """
    return get_backend_of(source).reshape(source, in_dims, out_dims)


def split(source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
    """
    :param source: {..., axis}
    :param axis: to cut into pieces
    :param out_dims: one for each piece; their sum is `axis`. One of them can have no size yet, it follows.
    :return: the pieces
    """
    require_dims("split", source, [axis])
    unknown = [i for i, dim in enumerate(out_dims) if not dim.is_dim_known()]
    if len(unknown) > 1:
        raise fail(f"split: {source}: the sizes of {shown([out_dims[i] for i in unknown])} are not known.")
    for i in unknown:
        rest = axis
        for dim in out_dims[:i]:
            rest = rest.sub_left(dim)
        for dim in reversed(out_dims[i + 1 :]):
            rest = rest.sub_right(dim)
        out_dim_for("split", out_dims[i], rest)
    if not any(dim.need_masking() for dim in out_dims[:-1]):
        return get_backend_of(source).split(source, axis=axis, out_dims=out_dims)
    pieces = []
    start: Tensor | int = 0
    for dim in out_dims:
        pieces.append(take_frames(source, axis, position=combine_bc(positions(dim), "+", start)))
        start = combine_bc(dim.get_size_tensor(), "+", start)
    return tuple(pieces)


def stack(sources: Sequence[Tensor], *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """
    :param sources: all with the same dims
    :param out_dim: the new dim; default: made from their number
    :return: the sources behind each other along the new dim; out_dim
    """
    if not sources:
        raise fail("stack: there are no sources.")
    out_dim = out_dim_for("stack", out_dim, Dim(len(sources), name="stack", auto_generated=True))
    return get_backend_of(*sources).stack(sources, out_dim=out_dim), out_dim


def unstack(source: Tensor, *, axis: Dim) -> tuple[Tensor, ...]:
    """
    :param source: {..., axis}
    :param axis: of fixed size
    :return: one tensor for each entry
    """
    return get_backend_of(source).unstack(source, axis=axis)


def _complete(source: Tensor, axis: Dim, dims: Sequence[Dim], is_padded: bool) -> None:
    """Sets the size of the one of `dims` which has none yet."""
    unknown = [i for i, dim in enumerate(dims) if not dim.is_dim_known()]
    if len(unknown) > 1:
        raise fail(f"split_dims: {source}: the sizes of {shown([dims[i] for i in unknown])} are not known.")
    for i in unknown:
        left, right = product_dim(dims[:i]), product_dim(dims[i + 1 :])
        others = product_dim([left, right]).size
        if not is_padded and axis.size is not None and others is not None and axis.size % others:
            raise fail(f"split_dims: {source}: {axis} cannot be divided into {shown(dims)}.")
        if is_padded:
            out_dim_for("split_dims", dims[i], axis.ceildiv_right(right).ceildiv_left(left))
        else:
            out_dim_for("split_dims", dims[i], axis.div_right(right).div_left(left))


def _position_with_gaps(out_dim: Dim, parts: Sequence[Dim]) -> Tensor:
    """:return: {..., out_dim}, where each frame stands when the parts were merged with all their padded frames"""
    rest: Tensor = positions(out_dim)
    position: Tensor | int = 0
    stride: Any = 1
    for part in reversed(parts):
        size = part.get_size_tensor_or_int()
        size = max(size, 1) if isinstance(size, int) else maximum(size, 1)
        position = combine_bc(combine_bc(combine_bc(rest, "%", size), "*", stride), "+", position)
        rest = combine_bc(rest, "//", size)
        width = part.capacity or part.size or part.get_dim_value_tensor()
        stride = width * stride if isinstance(width, int) else combine_bc(width, "*", stride)
    assert isinstance(position, Tensor)
    return position


def _position_without_gaps(parts: Sequence[Dim]) -> Tensor:
    """:return: {..., parts...}, where each frame stands in the merged dim"""
    position: Tensor | int = 0
    stride: Any = 1
    for part in reversed(parts):
        position = combine_bc(combine_bc(positions(part), "*", stride), "+", position)
        size = part.get_size_tensor_or_int()
        stride = size * stride if isinstance(size, int) and isinstance(stride, int) else combine_bc(size, "*", stride)
    assert isinstance(position, Tensor)
    return position
