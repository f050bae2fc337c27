"""A part of the frames of each sequence."""

from __future__ import annotations

from returnn.frontend._array.frames import take_frames
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._out_dims import out_dim_for, out_dim_with_lengths
from returnn.frontend._ranges import positions
from returnn.frontend.math_ import combine_bc, maximum
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import at_most

Position = Tensor | int


def slice(
    source: Tensor,
    *,
    axis: Dim,
    start: Position | None = None,
    end: Position | None = None,
    step: Position | None = None,
    size: Position | Dim | None = None,
    out_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """
    :param source: {..., axis}
    :param axis: to take frames from
    :param start: first frame; negative: counted from the end of each sequence. Default: 0
    :param end: the frame behind the last one; negative: counted from the end of each sequence. Default: the end
    :param step: distance of the frames, default 1
    :param size: instead of `end`: number of frames. Those outside of the sequence are 0.
    :param out_dim: the new dim; default: made from the others
    :return: {..., out_dim}; out_dim
    """
    require_dims("slice", source, [axis])
    if end is not None and size is not None:
        raise fail(f"slice: {source}: give either the end or the size.")
    if (isinstance(step, int) and step <= 0) or (isinstance(size, int) and size < 0):
        raise fail(f"slice: {source}: step {step}, size {size}: cannot be negative. See rf.reverse_sequence.")
    step = 1 if step is None else step
    start = 0 if start is None else _from_begin(axis, start)
    end = None if end is None else _from_begin(axis, end)
    if isinstance(size, int) and isinstance(start, int) and isinstance(step, int) and axis.size is not None:
        last = start + step * (size - 1)
        if size and last < axis.size:
            end, size = last + 1, None
    if size is None and isinstance(start, int) and isinstance(step, int) and not isinstance(end, Tensor) and start >= 0:
        return _slice_in_memory(source, axis, start, end, step, out_dim)
    if isinstance(start, int) and start < 0:
        start = combine_bc(axis.get_size_tensor(), "+", start)
    if size is None and isinstance(start, Tensor):
        start = maximum(start, 0)
    out_dim = _dim_of_frames(axis, start, end, step, size, out_dim)
    position = combine_bc(combine_bc(positions(out_dim), "*", step), "+", start)
    if size is not None and axis.size is None:  # all sequences could be empty, and then there is nothing to pick from
        return take_frames(
            *_with_one_more_frame(source, axis), position=position, lengths=axis.get_size_tensor()
        ), out_dim
    return take_frames(source, axis, position=position), out_dim


def _from_begin(axis: Dim, position: Position) -> Position:
    """:return: position counted from the begin of a static axis; otherwise as it is"""
    if isinstance(position, int) and axis.size is not None:
        return min(max(position + axis.size, 0) if position < 0 else position, axis.size)
    return position


def _with_one_more_frame(source: Tensor, axis: Dim) -> tuple[Tensor, Dim]:
    longer = axis + 1
    return get_backend_of(source).pad(
        source, axes=[axis], padding=[(0, 1)], out_dims=[longer], handle_dynamic_dims=False
    ), longer


def _slice_in_memory(
    source: Tensor, axis: Dim, start: int, end: int | None, step: int, out_dim: Dim | None
) -> tuple[Tensor, Dim]:
    """:return: the same slice of each sequence; out dim"""
    backend = get_backend_of(source)
    out_dim = out_dim_for("slice", out_dim, _computed_dim(axis, start, end, step))
    if not start and end is None and step == 1:
        return (source if out_dim is axis else backend.replace_dim(source, in_dim=axis, out_dim=out_dim)), out_dim
    return backend.slice(source, axis=axis, start=start, end=end, step=step, out_dim=out_dim), out_dim


def _computed_dim(axis: Dim, start: int, end: int | None, step: int) -> Dim:
    if axis.size is not None:
        size = len(range(start, axis.size if end is None else end, step))
        return axis if size == axis.size else Dim(size, name=f"{axis.name}:slice", kind=axis.kind, auto_generated=True)
    dim = axis
    if end is not None:
        dim = dim.sub_right(-end) if end < 0 else at_most(dim, end)
    return (dim.sub_left(start) if start else dim).ceildiv_right(step)


def _dim_of_frames(
    axis: Dim, start: Position, end: Position | None, step: Position, size: Position | Dim | None, out_dim: Dim | None
) -> Dim:
    """:return: the dim of the frames, where not each sequence is sliced alike"""
    if isinstance(size, Dim):
        return out_dim_for("slice", out_dim, size)
    if isinstance(size, int):
        return out_dim_for("slice", out_dim, Dim(size, name=f"{axis.name}:slice", kind=axis.kind, auto_generated=True))
    lengths = size
    if lengths is None:
        stop = axis.get_size_tensor()
        if end is not None:
            stop = combine_bc(stop, "+" if isinstance(end, int) and end < 0 else "min", end)
        lengths = maximum(combine_bc(stop, "-", start), 0)
        if not (isinstance(step, int) and step == 1):
            lengths = combine_bc(combine_bc(combine_bc(lengths, "+", step), "-", 1), "//", step)
    return out_dim_with_lengths(out_dim, lengths, name=f"{axis.name}:slice", like=axis)
