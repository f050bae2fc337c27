"""Frames before and behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array.slice import slice
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.limits import zero_value
from returnn.frontend._ops.operands import expand_for_mask, fail, require_dims
from returnn.frontend._out_dims import out_dim_for
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import at_least


def pad(
    source: Tensor,
    *,
    axes: Sequence[Dim],
    padding: int | tuple[Dim | int, Dim | int] | Sequence[tuple[Dim | int, Dim | int]],
    out_dims: Dim | Sequence[Dim] | None = None,
    mode: str = "constant",
    value: Any = None,
    handle_dynamic_dims: bool | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """
    :param source: {..., axes...}
    :param axes: to pad
    :param padding: number of frames before and behind: for each axis; or one pair, or one number, for all
    :param out_dims: for the axes; default: computed from these
    :param mode: what to pad with: "constant"; "reflect" (`c b | a b c | b a`), "symmetric" (`b a | a b c | c b`),
        "replicate" (`a a | a b c | c c`), "circular" (`b c | a b c | a b`). Where a sequence is empty, these are zeros
    :param value: for "constant": number or tensor; default 0, or False, or an empty string
    :param handle_dynamic_dims: whether frames come right behind the end of each sequence. Otherwise they come behind
        the longest one, and padded frames before them count as frames. Default: True
    :return: {..., out_dims...}; out_dims
    """
    require_dims("pad", source, axes)
    pairs = _pairs(padding, len(axes))
    given = [out_dims] if isinstance(out_dims, Dim) else out_dims
    if len(pairs) != len(axes) or (given is not None and len(given) != len(axes)):
        raise fail(f"pad: {len(axes)} axes, {len(pairs)} pairs of padding, {len(given or axes)} out_dims: differ.")
    new_dims = []
    for i, (axis, (left, right)) in enumerate(zip(axes, pairs, strict=True)):
        new_dims.append(out_dim_for("pad", given[i] if given else None, left + axis + right))
    if value is None:
        value = zero_value(source.dtype)
    backend = get_backend_of(source, value)
    if handle_dynamic_dims is not False:
        ends = [axis for axis, (_, right) in zip(axes, pairs, strict=True) if right != 0 or mode != "constant"]
        source = expand_for_mask(backend.expand_dim, source, ends)
    out = backend.pad(
        source,
        axes=axes,
        padding=pairs,
        out_dims=new_dims,
        handle_dynamic_dims=handle_dynamic_dims is not False,
        mode=mode,
        value=value,
    )
    return out, new_dims


def shift_right(source: Tensor, *, axis: Dim, pad_value: Any, amount: int = 1) -> Tensor:
    """
    :param source: {..., axis}
    :param axis: to shift
    :param pad_value: for the first frames
    :param amount: in frames
    :return: {..., axis}, where the last frames fell out
    """
    longer, (longer_dim,) = pad(source, axes=[axis], padding=[(amount, 0)], value=pad_value)
    return get_backend_of(longer).slice(longer, axis=longer_dim, end=axis, out_dim=axis)


def shift_left(source: Tensor, *, axis: Dim, pad_value: Any, amount: int = 1) -> Tensor:
    """
    :param source: {..., axis}
    :param axis: to shift
    :param pad_value: for the last frames
    :param amount: in frames
    :return: {..., axis}, where the first frames fell out
    """
    longer, (longer_dim,) = pad(source, axes=[axis], padding=[(0, amount)], value=pad_value, handle_dynamic_dims=True)
    out, _ = slice(longer, axis=longer_dim, start=amount, out_dim=axis)
    return out


def expand_make_non_empty(source: Tensor, *, axis: Dim, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """
    Gives each empty sequence one frame of zeros, so that there is something to pick from.

    :param source: {..., axis}
    :param axis: which may be empty
    :param out_dim: the new dim; default: made from the axis
    :return: {..., out_dim}; out_dim. The same tensor, if the axis has a fixed size above 0.
    """
    require_dims("expand_make_non_empty", source, [axis])
    if axis.size is not None and axis.size > 0:
        return source, axis
    out_dim = out_dim_for("expand_make_non_empty", out_dim, at_least(axis, 1))
    longer, (longer_dim,) = pad(source, axes=[axis], padding=[(0, 1)], handle_dynamic_dims=True)
    end = None if longer_dim.size is not None else out_dim
    return get_backend_of(longer).slice(longer, axis=longer_dim, end=end, out_dim=out_dim), out_dim


def _pairs(padding: Any, number: int) -> list[tuple[Any, Any]]:
    if isinstance(padding, (int, Dim)):
        return [(padding, padding)] * number
    if len(padding) == 2 and all(isinstance(side, (int, Dim)) for side in padding):
        return [tuple(padding)] * number
    return [tuple(pair) for pair in padding]
