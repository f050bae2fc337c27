"""The core operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._backends.numpy.raw import RawNumpyOps, check_device
from returnn.frontend._backends.template import TemplateBackend
from returnn.frontend._ops.matmul import matmul_axes
from returnn.frontend._ops.operands import as_dims, expand_for_mask, numbers_of_one_kind
from returnn.tensor import Dim, Tensor
from tests.frontend.reference.labeled import aligned, as_tensor, broadcast, masked, valid


class CoreReferenceOps:
    """The core operations. For their meaning see `returnn.frontend._ops`."""

    @classmethod
    def combine(
        cls,
        a: Any,
        kind: str,
        b: Any,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """:return: elementwise combination"""
        a, b = _operands(a, b)
        out = TemplateBackend.combine(
            a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        value = RawNumpyOps.combine_raw(aligned(a, out.dims), kind, aligned(b, out.dims))
        out.raw_tensor = value.astype(out.dtype)
        return out

    @classmethod
    def compare(
        cls,
        a: Any,
        kind: str,
        b: Any,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """:return: elementwise comparison"""
        a, b = _operands(a, b)
        out = TemplateBackend.compare(
            a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        out.raw_tensor = RawNumpyOps.compare_raw(aligned(a, out.dims), kind, aligned(b, out.dims))
        return out

    @staticmethod
    def activation(tensor: Tensor, func: str) -> Tensor:
        """:return: elementwise function"""
        out = TemplateBackend.activation(tensor, func)
        out.raw_tensor = RawNumpyOps.activation_raw(tensor.raw_tensor, func)
        return out

    @staticmethod
    def cast(tensor: Tensor, dtype: str) -> Tensor:
        """:return: tensor with another dtype"""
        out = TemplateBackend.cast(tensor, dtype)
        out.raw_tensor = RawNumpyOps.cast_raw(tensor.raw_tensor, dtype)
        return out

    @staticmethod
    def copy(tensor: Tensor) -> Tensor:
        """:return: tensor with an own array"""
        out = TemplateBackend.copy(tensor)
        out.raw_tensor = tensor.raw_tensor.copy()
        return out

    @staticmethod
    def convert_to_tensor(
        value: Any,
        *,
        dims: Sequence[Dim],
        dtype: str,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        device: str | None = None,
        name: str | None = None,
    ) -> Tensor:
        """:return: tensor with this value"""
        check_device(device)
        out = TemplateBackend.convert_to_tensor(
            value, dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim, name=name
        )
        out.raw_tensor = numpy.asarray(value, dtype=RawNumpyOps.as_dtype_raw(dtype))
        return out

    @staticmethod
    def full(
        dims: Sequence[Dim],
        fill_value: Any,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """:return: tensor with the scalar `fill_value` everywhere"""
        check_device(device)
        out = TemplateBackend.full(dims, fill_value, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)
        value = fill_value.raw_tensor if isinstance(fill_value, Tensor) else fill_value
        out.raw_tensor = numpy.full([int(d.get_dim_value()) for d in dims], value, RawNumpyOps.as_dtype_raw(dtype))
        return out

    @staticmethod
    def range_over_dim(dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor:
        """:return: [dim]: 0, 1, 2, ..."""
        check_device(device)
        out = TemplateBackend.range_over_dim(dim, dtype=dtype)
        out.raw_tensor = numpy.arange(int(dim.get_dim_value()), dtype=out.dtype)
        return out

    @staticmethod
    def where(cond: Tensor, true_: Any, false_: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """:return: elementwise choice"""
        true_, false_ = _operands(true_, false_)
        out = TemplateBackend.where(cond, true_, false_, allow_broadcast_all_sources=allow_broadcast_all_sources)
        out.raw_tensor = numpy.where(*(aligned(x, out.dims) for x in (cond, true_, false_)))
        return out

    @staticmethod
    def clip_by_value(
        x: Tensor, clip_value_min: Any, clip_value_max: Any, *, allow_broadcast_all_sources: bool = False
    ) -> Tensor:
        """:return: elementwise at least minimum, at most maximum"""
        low, high = as_tensor(clip_value_min, like=x), as_tensor(clip_value_max, like=x)
        out = TemplateBackend.clip_by_value(x, low, high, allow_broadcast_all_sources=allow_broadcast_all_sources)
        out.raw_tensor = numpy.clip(*(aligned(operand, out.dims) for operand in (x, low, high)))
        return out

    @staticmethod
    def expand_dim(source: Tensor, dim: Dim) -> Tensor:
        """:return: source with `dim` added"""
        out = TemplateBackend.expand_dim(source, dim)
        out.raw_tensor = broadcast(source, out.dims).copy()
        return out

    @staticmethod
    def squeeze(source: Tensor, axis: Dim) -> Tensor:
        """:return: source without `axis`"""
        out = TemplateBackend.squeeze(source, axis)
        out.raw_tensor = numpy.squeeze(source.raw_tensor, source.get_axis_from_description(axis))
        return out

    @staticmethod
    def make_output_tensor(tensor: Tensor, dims: Sequence[Dim], *, name: str) -> Tensor:
        """:return: tensor with its axes in the order of `dims`"""
        out = tensor.copy_compatible_to_dims(dims, add_dims=False)
        out.name = name
        return out

    @classmethod
    def reduce(cls, source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """:return: reduction"""
        dims = as_dims(axis)
        out = TemplateBackend.reduce(source, mode=mode, axis=dims, use_mask=use_mask)
        if use_mask:
            source = expand_for_mask(cls.expand_dim, source, dims)
        axes = tuple(source.get_axis_from_description(dim) for dim in dims)
        mask_dims = dims if use_mask else []
        x = masked(source, mask_dims, _neutral_value(mode, source.dtype))
        with numpy.errstate(all="ignore"):
            if mode == "mean":
                count = numpy.broadcast_to(valid(mask_dims, source.dims), x.shape).sum(axis=axes)
                value = x.sum(axis=axes) / numpy.maximum(count, 1)
            elif mode == "logsumexp":
                value = numpy.logaddexp.reduce(x, axis=axes) if len(axes) == 1 else _logsumexp(x, axes)
            elif mode.startswith("arg"):
                value = getattr(numpy, mode)(x, axis=axes[0]) if x.shape[axes[0]] else 0
            elif mode in ("max", "min"):
                value = getattr(numpy, mode)(x, axis=axes, initial=_neutral_value(mode, x.dtype.name))
            else:
                value = getattr(numpy, mode)(x, axis=axes)
        out.raw_tensor = numpy.full([n for i, n in enumerate(x.shape) if i not in axes], value, dtype=out.dtype)
        return out

    @classmethod
    def matmul(cls, a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """:return: sum of products over `reduce`, as `einsum`"""
        dims = as_dims(reduce)
        out = TemplateBackend.matmul(a, b, reduce=dims, use_mask=use_mask)
        if use_mask:
            a, b = expand_for_mask(cls.expand_dim, a, dims), expand_for_mask(cls.expand_dim, b, dims)
            a, b = (_with_raw(x, masked(x, [d for d in dims if d.need_masking()], 0)) for x in (a, b))
        axes_a, axes_b, *_ = matmul_axes(a, b, dims)
        letters_a = [chr(ord("a") + i) for i in range(len(a.dims))]
        letters_b = [chr(ord("A") + i) for i in range(len(b.dims))]
        for i, j in zip(axes_a, axes_b, strict=True):
            letters_b[j] = letters_a[i]
        letter_of = {}
        for i, dim in enumerate(a.dims):
            if i not in axes_a:
                letter_of[dim] = letters_a[i]
        for j, dim in enumerate(b.dims):
            if j not in axes_b:
                letters_b[j] = letter_of.setdefault(dim, letters_b[j])
        terms = ["".join(letters_a), "".join(letters_b), "".join(letter_of[dim] for dim in out.dims)]
        value = numpy.einsum(f"{terms[0]},{terms[1]}->{terms[2]}", a.raw_tensor, b.raw_tensor)
        out.raw_tensor = numpy.asarray(value, dtype=out.dtype)
        return out


def _operands(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    like = a if isinstance(a, Tensor) else b if isinstance(b, Tensor) else None
    a, b = numbers_of_one_kind(a, b)
    return as_tensor(a, like=like), as_tensor(b, like=like)


def _with_raw(x: Tensor, raw: numpy.ndarray) -> Tensor:
    new = x.copy_template()
    new.raw_tensor = raw
    return new


def _logsumexp(x: numpy.ndarray, axes: tuple[int, ...]) -> numpy.ndarray:
    for axis in sorted(axes, reverse=True):
        x = numpy.logaddexp.reduce(x, axis=axis)
    return x


def _neutral_value(mode: str, dtype: str) -> Any:
    """:return: the value which does not change a reduction"""
    kind = numpy.dtype(dtype).kind
    low: Any = -numpy.inf if kind == "f" else False if kind == "b" else numpy.iinfo(dtype).min
    high: Any = numpy.inf if kind == "f" else True if kind == "b" else numpy.iinfo(dtype).max
    return {"max": low, "argmax": low, "logsumexp": low, "min": high, "argmin": high, "all": True}.get(mode, 0)
