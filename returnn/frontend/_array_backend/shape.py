"""Operations which change dims and keep values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._ops.layout import product, raw_in_order, with_at_least
from returnn.frontend._ops.limits import zero_value
from returnn.frontend._template_backend import TemplateBackend
from returnn.frontend._template_backend.shape import axes_of
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import padded_dim


class ShapeArrayOps(CoreArrayOps):
    """For the meaning of the operations see `returnn.frontend._interface.shape`."""

    @staticmethod
    def concat_raw(raw_tensors: Sequence[Any], axis: int) -> Any:
        """:return: concatenation along the axis; all other axes have the same sizes"""
        raise NotImplementedError

    @staticmethod
    def stack_raw(raw_tensors: Sequence[Any]) -> Any:
        """:return: all behind each other along a new first axis"""
        raise NotImplementedError

    @staticmethod
    def unstack_raw(raw_tensor: Any, axis: int, number: int) -> Sequence[Any]:
        """:return: the entries of the axis, which are so many"""
        raise NotImplementedError

    @staticmethod
    def split_raw(raw_tensor: Any, sizes: Sequence[Any], axis: int) -> Sequence[Any]:
        """:return: pieces of these sizes along the axis"""
        raise NotImplementedError

    @staticmethod
    def pad_raw(raw_tensor: Any, amounts: Sequence[tuple[Any, Any]], value: Any) -> Any:
        """:return: for each axis, so many times the number `value` before and behind"""
        raise NotImplementedError

    @staticmethod
    def flip_raw(raw_tensor: Any, axis: int) -> Any:
        """:return: the axis in reverse order"""
        raise NotImplementedError

    @classmethod
    def merge_dims(cls, source: Tensor, *, dims: Sequence[Dim], out_dim: Dim) -> tuple[Tensor, Dim]:
        """:return: merged, out dim"""
        out, out_dim = TemplateBackend.merge_dims(source, dims=dims, out_dim=out_dim)
        out._raw_tensor = cls._reshaped(source, dims, out)
        return out, out_dim

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
        out = TemplateBackend.split_dims(
            source, axis=axis, dims=dims, pad_to_multiples=pad_to_multiples, pad_value=pad_value
        )
        if pad_to_multiples:
            number = source.get_axis_from_description(axis)
            missing = product([dim.get_dim_value() for dim in dims]) - axis.get_dim_value()
            amounts: list[tuple[Any, Any]] = [(0, 0)] * len(source.dims)
            amounts[number] = (0, missing)
            padded = source.copy_template()
            padded._raw_tensor = cls.pad_raw(source._raw_tensor, amounts, 0 if pad_value is None else pad_value)
            source = padded
        out._raw_tensor = cls._reshaped(source, [axis], out)
        return out

    @classmethod
    def reshape(cls, source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Tensor:
        """:return: reshaped"""
        out = TemplateBackend.reshape(source, in_dims, out_dims)
        out._raw_tensor = cls._reshaped(source, in_dims, out)
        return out

    @classmethod
    def _reshaped(cls, source: Tensor, in_dims: Sequence[Dim], out: Tensor) -> Any:
        axes = axes_of(source, in_dims)
        before = [i for i in range(len(source.dims)) if i not in axes and i < min(axes)]
        behind = [i for i in range(len(source.dims)) if i not in axes and i > min(axes)]
        perm = [*before, *axes, *behind]
        raw = source._raw_tensor if perm == sorted(perm) else cls.transpose_raw(source._raw_tensor, perm)
        return cls.reshape_raw(raw, cls._sizes_for_reshape(out.dims))

    @classmethod
    def replace_dim(cls, source: Tensor, *, in_dim: Dim, out_dim: Dim) -> Tensor:
        """:return: source with another dim"""
        out = TemplateBackend.replace_dim(source, in_dim=in_dim, out_dim=out_dim)
        out._raw_tensor = source._raw_tensor
        return out

    @classmethod
    def set_sparse_dim(cls, source: Tensor, sparse_dim: Dim | None) -> Tensor:
        """:return: source with another sparse dim"""
        out = TemplateBackend.set_sparse_dim(source, sparse_dim)
        out._raw_tensor = source._raw_tensor
        return out

    @classmethod
    def concat(cls, *sources: tuple[Tensor, Dim], allow_broadcast: bool = False, out_dim: Dim) -> Tensor:
        """:return: concatenated"""
        sources = tuple((cls.as_tensor(x), dim) for x, dim in sources)
        out = TemplateBackend.concat(*sources, allow_broadcast=allow_broadcast, out_dim=out_dim)
        axis = next(i for i, dim in enumerate(out.dims) if dim is out_dim)
        parts = []
        for source, dim in sources:
            dims = [*out.dims[:axis], dim, *out.dims[axis + 1 :]]
            parts.append(source.copy_compatible_to_dims_raw(dims, unbroadcast=True))
        out._raw_tensor = cls.concat_raw(parts, axis) if len(parts) > 1 else parts[0]
        return out

    @classmethod
    def split(cls, source: Tensor, *, axis: Dim, out_dims: Sequence[Dim]) -> tuple[Tensor, ...]:
        """:return: pieces"""
        outs = TemplateBackend.split(source, axis=axis, out_dims=out_dims)
        sizes = [dim.get_dim_value() for dim in out_dims]
        pieces = cls.split_raw(source._raw_tensor, sizes, source.get_axis_from_description(axis))
        for out, piece in zip(outs, pieces, strict=True):
            out._raw_tensor = piece
        return outs

    @classmethod
    def stack(cls, sources: Sequence[Tensor], *, out_dim: Dim) -> Tensor:
        """:return: stacked"""
        sources = [cls.as_tensor(source) for source in sources]
        out = TemplateBackend.stack(sources, out_dim=out_dim)
        out._raw_tensor = cls.stack_raw([raw_in_order(source, out.dims[1:]) for source in sources])
        return out

    @classmethod
    def unstack(cls, source: Tensor, *, axis: Dim) -> tuple[Tensor, ...]:
        """:return: entries"""
        outs = TemplateBackend.unstack(source, axis=axis)
        entries = cls.unstack_raw(source._raw_tensor, source.get_axis_from_description(axis), len(outs))
        for out, entry in zip(outs, entries, strict=True):
            out._raw_tensor = entry
        return outs

    @classmethod
    def slice(
        cls,
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
        raw = source._raw_tensor
        assert raw is not None
        end = end.get_dim_value() if isinstance(end, Dim) else end
        out._raw_tensor = raw[(*[slice(None)] * number, slice(start, end, step))]
        return out

    @classmethod
    def flip_no_mask(cls, source: Tensor, *, axis: Dim) -> Tensor:
        """:return: flipped"""
        out = TemplateBackend.flip_no_mask(source, axis=axis)
        out._raw_tensor = cls.flip_raw(source._raw_tensor, source.get_axis_from_description(axis))
        return out

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
        """:return: padded"""
        out = TemplateBackend.pad(
            source, axes=axes, padding=padding, out_dims=out_dims, handle_dynamic_dims=handle_dynamic_dims, mode=mode,
            value=value,
        )  # fmt: skip
        if mode != "constant":
            for axis, (left, _), out_dim in zip(axes, padding, out_dims, strict=True):
                source = cls._pad_by_position(source, axis, left, out_dim, mode, handle_dynamic_dims)
            return source
        fill = cls.as_tensor(0 if value is None else value, like=source)
        amounts: list[tuple[Any, Any]] = [(0, 0)] * len(source.dims)
        for number, sides in zip(axes_of(source, axes), padding, strict=True):
            left, right = (side.get_dim_value() if isinstance(side, Dim) else side for side in sides)
            amounts[number] = (left, right)
        out._raw_tensor = cls.pad_raw(source._raw_tensor, amounts, 0 if isinstance(value, Tensor) else value or 0)
        for axis, (left, right), out_dim in zip(axes, padding, out_dims, strict=True):
            behind = handle_dynamic_dims and axis.need_masking() and right != 0
            if behind or isinstance(value, Tensor):
                fills_front = isinstance(value, Tensor) and left != 0
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


def _size(dim: Dim | int) -> Tensor | int:
    return dim.get_size_tensor_or_int() if isinstance(dim, Dim) else dim
