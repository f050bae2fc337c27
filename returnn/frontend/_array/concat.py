"""Tensors behind each other along a dim."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._array.convert import where
from returnn.frontend._array.frames import clipped
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._out_dims import out_dim_for
from returnn.frontend._ranges import positions
from returnn.frontend.math_ import combine_bc, compare_bc
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import padded_dim


def concat(
    *sources: tuple[Tensor, Dim],
    allow_broadcast: bool = False,
    out_dim: Dim | None = None,
    handle_dynamic_dims: bool | None = None,
) -> tuple[Tensor, Dim]:
    """
    :param sources: tensors, each with its dim along which it is concatenated
    :param allow_broadcast: a source may lack some of the other dims; its values are repeated there
    :param out_dim: the new dim; default: the sum
    :param handle_dynamic_dims: whether the frames of the next source come right behind the end of each sequence.
        Otherwise they come behind the longest one, and padded frames in between count as frames. Default: True
    :return: the sources behind each other; out_dim
    """
    if not sources:
        raise fail("concat: there are no sources.")
    for pair in sources:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise fail(f"concat: {pair} is no pair.", "Each source comes with its dim: rf.concat((a, dim), (b, dim)).")
    for source, dim in sources:
        require_dims("concat", source, [dim])
    parts = [dim for _, dim in sources]
    has_gaps = any(dim.need_masking() for dim in parts[:-1])
    in_memory = _sum([*map(padded_dim, parts[:-1]), parts[-1]])
    is_dense = has_gaps and handle_dynamic_dims is not False
    out_dim = out_dim_for("concat", out_dim, _sum(parts) if is_dense else in_memory)
    backend = get_backend_of(*(source for source, _ in sources))
    if not is_dense:
        return backend.concat(*sources, allow_broadcast=allow_broadcast, out_dim=out_dim), out_dim
    all_frames = padded_dim(in_memory)
    with_gaps = backend.concat(*sources, allow_broadcast=allow_broadcast, out_dim=all_frames)
    position = clipped(_position_with_gaps(out_dim, parts), all_frames)
    return get_backend_of(with_gaps, position).gather(with_gaps, indices=position, axis=all_frames), out_dim


def concat_features(*sources: Tensor, allow_broadcast: bool = False) -> Tensor:
    """
    :param sources: each with a feature dim
    :param allow_broadcast: a source may lack some of the other dims
    :return: the sources behind each other along their feature dims
    """
    pairs = []
    for source in sources:
        if source.feature_dim is None:
            raise fail(f"concat_features: {source} has no feature dim.", "Use rf.concat with dims.")
        pairs.append((source, source.feature_dim))
    return concat(*pairs, allow_broadcast=allow_broadcast)[0]


def cum_concat_step(
    source: Tensor, *, prev_accum: Tensor, axis: Dim, out_spatial_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """
    One step of a loop that collects all frames so far.

    :param source: the frame of this step, {...}
    :param prev_accum: the frames before, {..., axis}
    :param axis: of the frames before
    :param out_spatial_dim: the new dim; default: axis + 1
    :return: {..., out_spatial_dim}; out_spatial_dim
    """
    require_dims("cum_concat_step", prev_accum, [axis])
    out_spatial_dim = out_dim_for("cum_concat_step", out_spatial_dim, axis + 1)
    backend = get_backend_of(source, prev_accum)
    out = backend.cum_concat_step(source, prev_accum=prev_accum, axis=axis, out_spatial_dim=out_spatial_dim)
    return out, out_spatial_dim


def _sum(dims: Sequence[Dim]) -> Dim:
    total = dims[0]
    for dim in dims[1:]:
        total = total + dim
    return total


def _position_with_gaps(out_dim: Dim, parts: Sequence[Dim]) -> Tensor:
    """:return: {..., out_dim}, where each frame stands if padded frames are between the parts"""
    position = positions(out_dim)
    result = position
    start: Tensor | int = 0
    for part in parts[:-1]:
        start = combine_bc(part.get_size_tensor(), "+", start)
        gap = combine_bc(padded_dim(part).get_size_tensor(), "-", part.get_size_tensor())
        behind = compare_bc(position, ">=", start)
        moved = combine_bc(result, "+", gap)
        result = where(behind, moved, result, allow_broadcast_all_sources=True)
    return result
