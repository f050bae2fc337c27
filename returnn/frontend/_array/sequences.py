"""Frames of sequences in another order, several times, or with those around them."""

from __future__ import annotations

from typing import Any

from returnn.frontend._array.frames import clipped
from returnn.frontend._array.gather import valid_only
from returnn.frontend._array.order import search_sorted
from returnn.frontend._array.pad import pad
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._out_dims import out_dim_for, out_dim_with_lengths
from returnn.frontend._ranges import positions
from returnn.frontend._reduce import reduce_sum
from returnn.frontend._use_mask import use_mask_default
from returnn.frontend.math_ import combine_bc
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


def reverse_sequence(tensor: Tensor, *, axis: Dim, handle_dynamic_dims: bool = True) -> Tensor:
    """
    :param tensor: {..., axis}
    :param axis: to reverse
    :param handle_dynamic_dims: each sequence on its own. Otherwise the axis in memory, so that padded frames come first
    :return: {..., axis}
    """
    require_dims("reverse_sequence", tensor, [axis])
    if not handle_dynamic_dims or not axis.need_masking():
        return get_backend_of(tensor).flip_no_mask(tensor, axis=axis)
    last = combine_bc(axis.get_size_tensor(), "-", 1)
    index = combine_bc(combine_bc(last, "-", positions(axis), dim_order=tensor.dims), "max", 0)
    return get_backend_of(tensor, index).gather(tensor, indices=index, axis=axis)


def repeat(
    values: Tensor, *, in_spatial_dim: Dim, repeats: int | Tensor, out_spatial_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """
    Each frame several times.

    :param values: {..., in_spatial_dim}
    :param in_spatial_dim: with the frames
    :param repeats: how often, 0 or more; the same for all, or for each frame {in_spatial_dim}, or for each sequence
    :param out_spatial_dim: the new dim; default: made from the others
    :return: {..., out_spatial_dim}; out_spatial_dim
    """
    require_dims("repeat", values, [in_spatial_dim])
    if isinstance(repeats, int):
        out_dim = out_dim_for("repeat", out_spatial_dim, in_spatial_dim * repeats)
        index = combine_bc(positions(out_dim), "//", max(repeats, 1))
    elif in_spatial_dim in repeats.dims:
        return _repeat_frames(values, in_spatial_dim, repeats, out_spatial_dim)
    else:
        if not repeats.dtype.startswith(("int", "uint")):
            raise DtypeError(f"repeat: {repeats} should be integers. Use rf.cast first.")
        lengths = combine_bc(in_spatial_dim.get_size_tensor_or_int(), "*", repeats)
        out_dim = out_dim_with_lengths(
            out_spatial_dim, lengths, name=f"{in_spatial_dim.name}:repeat", like=in_spatial_dim
        )
        index = combine_bc(positions(out_dim), "//", combine_bc(repeats, "max", 1))
    index = clipped(index, in_spatial_dim)
    return get_backend_of(values, index).gather(values, indices=index, axis=in_spatial_dim), out_dim


def window(
    source: Tensor,
    *,
    spatial_dim: Dim,
    window_dim: Dim,
    window_right: Dim | int | None = None,
    window_left: Dim | int | None = None,
    padding: str = "same",
    pad_value: Any = None,
    stride: int = 1,
    use_mask: bool | None = None,
) -> tuple[Tensor, Dim]:
    """
    Each frame with those around it.

    :param source: {..., spatial_dim}
    :param spatial_dim: with the frames
    :param window_dim: how many frames, of fixed size
    :param window_right: how many of them come behind the frame
    :param window_left: how many of them come before it; default: half of the window, so that with a window of even
        size there is one more behind
    :param padding: "same": frames outside of the sequence are `pad_value`; "valid": only windows within the sequence
    :param pad_value: default 0
    :param stride: distance of the windows
    :param use_mask: whether frames behind the end of a sequence are `pad_value`, also where others are longer. Default:
        see `use_mask_default`
    :return: {..., out_dim, window_dim}; out_dim
    """
    require_dims("window", source, [spatial_dim])
    size = window_dim.size
    if size is None or padding not in ("same", "valid"):
        raise fail(
            f"window: {source}: {window_dim} should have a fixed size, and padding {padding!r} be same or valid."
        )
    out_dim = spatial_dim
    if padding == "same":
        left, right = _window_sides(size, window_left, window_right)
        if use_mask is None:
            use_mask = use_mask_default(default=True, func_name="window")
        source, (spatial_dim,) = pad(
            source, axes=[spatial_dim], padding=[(left, right)], value=pad_value, handle_dynamic_dims=bool(use_mask)
        )
    else:
        if window_left is not None or window_right is not None:
            raise fail(f"window: {source}: window_left and window_right are for padding 'same'.")
        out_dim = out_dim.sub_right(size - 1)
    out_dim = out_dim.ceildiv_right(stride)
    start = positions(out_dim)
    start = start if stride == 1 else combine_bc(start, "*", stride)
    index = combine_bc(start, "+", positions(window_dim))
    return get_backend_of(source, index).gather(source, indices=index, axis=spatial_dim), out_dim


def _repeat_frames(values: Tensor, in_dim: Dim, repeats: Tensor, out_dim: Dim | None) -> tuple[Tensor, Dim]:
    repeats = valid_only(repeats, 0)
    lengths = reduce_sum(repeats, axis=in_dim)
    out_dim = out_dim_with_lengths(out_dim, lengths, name=f"{in_dim.name}:repeat", like=in_dim)
    ends = get_backend_of(repeats).cumsum(repeats, spatial_dim=in_dim)
    wanted = get_backend_of(ends).cast(positions(out_dim), ends.dtype)
    index = clipped(search_sorted(ends, wanted, axis=in_dim, side="right"), in_dim)
    return get_backend_of(values, index).gather(values, indices=index, axis=in_dim), out_dim


def _window_sides(size: int, left: Dim | int | None, right: Dim | int | None) -> tuple[int, int]:
    left, right = (side.size if isinstance(side, Dim) else side for side in (left, right))
    if left is None:
        left = (size - 1) // 2 if right is None else size - 1 - right
    if right is None:
        right = size - 1 - left
    if left < 0 or right < 0 or left + right != size - 1:
        raise fail(f"window: {left} frames before and {right} behind do not fit into a window of {size}.")
    return left, right
