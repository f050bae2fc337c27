"""Frames before and behind those of a dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.axes import axes_of
from returnn.frontend._ops.creation import CreationOps
from returnn.frontend._ops.gather import GatherOps
from returnn.frontend._ops.layout import with_at_least
from returnn.frontend._ops.limits import zero_value
from returnn.frontend._ops.operands import fail, require_dims
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import padded_dim
from returnn.util.errors import DtypeError

PAD_MODES = ("constant", "reflect", "symmetric", "replicate", "circular")


class PadOps(GatherOps, CreationOps):
    """Frames before and behind those of a dim."""

    @classmethod
    def pad(
        cls,
        source: Tensor,
        *,
        axes: Sequence[Dim],
        padding: Sequence[tuple[Dim | int, Dim | int]],
        out_dims: Sequence[Dim],
        handle_dynamic_dims: bool,
        mode: str = "constant",
        value: Any = None,
    ) -> Tensor:
        """
        :param source: {..., axes...}
        :param axes: to pad
        :param padding: for each of them, the number of frames before and behind
        :param out_dims: for the axes
        :param handle_dynamic_dims: whether frames come right behind the end of each sequence
        :param mode: "constant", "reflect", "symmetric", "replicate", "circular"
        :param value: for "constant"; default 0
        """
        if mode not in PAD_MODES:
            raise fail(f"pad: there is no mode {mode!r}.", f"Possible: {', '.join(PAD_MODES)}.")
        require_dims("pad", source, axes)
        fill = None if value is None else cls.as_tensor(value, like=source)
        if fill is not None and fill.dtype != source.dtype:
            raise DtypeError(
                f"pad: the dtypes of {source} and the value {value} differ.\n  Use rf.cast on one of them."
            )
        if cls.computes and mode != "constant":
            for axis, (left, _), out_dim in zip(axes, padding, out_dims, strict=True):
                source = cls._pad_by_position(source, axis, left, out_dim, mode, handle_dynamic_dims)
            return source
        out = source
        for number, new_dim in zip(axes_of(source, axes), out_dims, strict=True):
            out = out.copy_template_replace_dim_tag(number, new_dim)
        if not cls.computes:
            return out
        number = 0 if value is None or isinstance(value, Tensor) else value
        out._raw_tensor = cls.pad_raw(source._raw_tensor, _amounts(source, axes, padding), number)
        for axis, (left, right), out_dim in zip(axes, padding, out_dims, strict=True):
            behind = handle_dynamic_dims and axis.need_masking() and right != 0
            if behind or isinstance(value, Tensor):
                fills_front = isinstance(value, Tensor) and left != 0
                fill = cls.as_tensor(0, like=source) if fill is None else fill
                out = cls._filled(out, axis, left, out_dim, fill, handle_dynamic_dims, fills_front)
        return out

    @classmethod
    def _filled(
        cls,
        out: Tensor,
        axis: Dim,
        left: Dim | int,
        out_dim: Dim,
        value: Tensor,
        handle_dynamic_dims: bool,
        fills_front: bool,
    ) -> Tensor:
        """:return: out, with `value` in the frames behind those of `axis`, and `left` of them before"""
        position = cls.range_over_dim(out_dim)
        lengths = cls.as_tensor((axis if handle_dynamic_dims else padded_dim(axis)).get_size_tensor())
        end = lengths if left == 0 else cls.combine(lengths, "add", _size(left), allow_broadcast_all_sources=True)
        inside = cls.compare(position, "less", end, dim_order=out.dims)
        if fills_front:
            begins = cls.compare(position, "greater_equal", _size(left), allow_broadcast_all_sources=True)
            inside = cls.combine(inside, "logical_and", begins, dim_order=out.dims)
        filled = cls.where(inside, out, value, allow_broadcast_all_sources=True)
        return filled.copy_compatible_to_dims(out.dims)

    @classmethod
    def _pad_by_position(
        cls, source: Tensor, axis: Dim, left: Dim | int, out_dim: Dim, mode: str, handle_dynamic_dims: bool
    ) -> Tensor:
        """:return: source, where each new frame is a copy of one that is there"""
        order = [out_dim if dim == axis else dim for dim in source.dims]
        if axis.size is None:  # an empty sequence has nothing to copy: zeros
            source = cls._with_some_frame(source, axis)
        position = cls.combine(cls.range_over_dim(out_dim), "sub", _size(left), allow_broadcast_all_sources=True)
        lengths = cls.as_tensor((axis if handle_dynamic_dims else padded_dim(axis)).get_size_tensor())
        indices = cls._mirrored(position, lengths, mode)
        out = cls.gather(source, indices=indices, axis=axis)
        if axis.size is None:
            is_there = cls.compare(lengths, "greater", 0)
            out = cls.where(is_there, out, zero_value(out.dtype), allow_broadcast_all_sources=True)
        return out.copy_compatible_to_dims(order, add_dims=False)

    @classmethod
    def _with_some_frame(cls, source: Tensor, axis: Dim) -> Tensor:
        """:return: source with at least one frame in memory, whatever its dims say"""
        number = source.get_axis_from_description(axis)
        size = axis.get_dim_value()
        out = source.copy_template()
        out._raw_tensor = with_at_least(source, source._raw_tensor, number, 1, zero_value(source.dtype), size=size)
        return out

    @classmethod
    def _mirrored(cls, position: Tensor, lengths: Tensor, mode: str) -> Tensor:
        """:return: which frame of 0 .. lengths - 1 stands at each position, which can be below or above"""

        def combine(a: Any, kind: str, b: Any) -> Tensor:
            return cls.combine(a, kind, b, allow_broadcast_all_sources=True)

        last = combine(combine(lengths, "sub", 1), "maximum", 0)
        if mode == "replicate":
            return combine(combine(position, "maximum", 0), "minimum", last)
        if mode == "circular":
            return combine(position, "mod", combine(last, "add", 1))
        turn = combine(last, "maximum", 1) if mode == "reflect" else combine(last, "add", 1)
        period = combine(turn, "mul", 2)  # there and back; the frames at the ends occur once if reflected, else twice
        folded = combine(position, "mod", period)
        back = (
            combine(period, "sub", folded) if mode == "reflect" else combine(combine(period, "sub", 1), "sub", folded)
        )
        return combine(combine(folded, "minimum", back), "minimum", last)


def _amounts(source: Tensor, axes: Sequence[Dim], padding: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """:return: for each axis of source, how many frames come before and behind, as numbers or raw scalars"""
    amounts: list[tuple[Any, Any]] = [(0, 0)] * len(source.dims)
    for number, sides in zip(axes_of(source, axes), padding, strict=True):
        left, right = (side.get_dim_value() if isinstance(side, Dim) else side for side in sides)
        amounts[number] = (left, right)
    return amounts


def _size(dim: Dim | int) -> Tensor | int:
    return dim.get_size_tensor_or_int() if isinstance(dim, Dim) else dim
