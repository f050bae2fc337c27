"""The core operations."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from returnn.frontend._backend import Backend
from returnn.frontend._ops.layout import masked_raw, product, raw_for_broadcast, with_at_least
from returnn.frontend._ops.operands import dtype_of_number, expand_for_mask, numbers_of_one_kind
from returnn.frontend._template_backend import TemplateBackend
from returnn.frontend._template_backend.core import as_dims, matmul_axes, matmul_template
from returnn.tensor import Dim, Tensor


class CoreArrayOps(Backend[Any]):
    """The core operations, on the raw operations below, which TensorFlow and PyTorch define."""

    matmul_folds_axes = False  # whether the library makes (..., I) x (I, J) one matrix product, without our reshapes

    @staticmethod
    def reduce_raw(raw_tensor: Any, mode: str, axes: Sequence[int]) -> Any:
        """:return: reduction over these axes; for "argmin" and "argmax" it is one axis, and the result is int32"""
        raise NotImplementedError

    @staticmethod
    def matmul_raw(a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False) -> Any:
        """:return: (..., I, J) x (..., J, K) -> (..., I, K), where (...) are the same in both; or a with 2 axes"""
        raise NotImplementedError

    @staticmethod
    def range_raw(size: Any, dtype: str, device: str | None) -> Any:
        """:return: 0, 1, ..., size - 1"""
        raise NotImplementedError

    @staticmethod
    def where_raw(cond: Any, true_: Any, false_: Any) -> Any:
        """:return: elementwise choice, with broadcasting"""
        raise NotImplementedError

    @staticmethod
    def constant_raw(value: Any, dtype: str, device: str | None) -> Any:
        """:return: raw tensor from a number or numpy array"""
        raise NotImplementedError

    @staticmethod
    def device_scope_raw(device: str | None) -> Any:
        """:return: context manager; operations made inside run on the device, where values do not say it themselves"""
        return contextlib.nullcontext()

    @classmethod
    def number_raw(cls, value: Any, dtype: str, other: Tensor) -> Any:
        """:return: number as operand of `combine_raw` and `compare_raw`, beside the tensor `other`"""
        return cls.constant_raw(value, dtype, other.device)

    @classmethod
    def as_tensor(cls, value: Any, *, like: Tensor | None = None) -> Tensor:
        """:return: operand as tensor of this backend; a number takes the dtype of `like`"""
        if isinstance(value, Tensor):
            if isinstance(value._raw_tensor, cls.RawTensorType) or value._raw_backend is cls:
                return value
            out = value.copy_template()
            out._raw_tensor = cls.constant_raw(value._raw_backend.raw_to_numpy(value._raw_tensor), value.dtype, None)
            return out
        out = Tensor("const", (), dtype_of_number(value, like=like))
        out._raw_tensor = cls.constant_raw(value, out.dtype, None if like is None else like.device)
        return out

    @classmethod
    def _number_beside(cls, value: Any, other: Tensor) -> Tensor:
        out = Tensor("const", (), dtype_of_number(value, like=other))
        out._raw_tensor = cls.number_raw(value, out.dtype, other)
        return out

    @classmethod
    def _operands(cls, a: Any, b: Any) -> tuple[Tensor, Tensor]:
        """:return: both as tensors"""
        like = a if isinstance(a, Tensor) else b if isinstance(b, Tensor) else None
        a, b = numbers_of_one_kind(a, b)
        return cls.as_tensor(a, like=like), cls.as_tensor(b, like=like)

    @classmethod
    def _operands_or_number(cls, a: Any, b: Any) -> tuple[Tensor, Tensor]:
        """:return: both as tensors; the raw tensor of one can be a number"""
        if isinstance(a, Tensor):
            return cls.as_tensor(a), cls.as_tensor(b) if isinstance(b, Tensor) else cls._number_beside(b, a)
        if isinstance(b, Tensor):
            return cls._number_beside(a, b), cls.as_tensor(b)
        return cls._operands(a, b)

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
        a, b = cls._operands_or_number(a, b)
        out = TemplateBackend.combine(
            a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        if out.dtype != a.dtype:  # integers were divided
            a, b = cls.cast(a, out.dtype), cls.cast(b, out.dtype)
        out._raw_tensor = cls.combine_raw(raw_for_broadcast(a, out.dims), kind, raw_for_broadcast(b, out.dims))
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
        a, b = cls._operands_or_number(a, b)
        out = TemplateBackend.compare(
            a, kind, b, allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        out._raw_tensor = cls.compare_raw(raw_for_broadcast(a, out.dims), kind, raw_for_broadcast(b, out.dims))
        return out

    @classmethod
    def activation(cls, tensor: Tensor, func: str) -> Tensor:
        """:return: elementwise function"""
        out = TemplateBackend.activation(tensor, func)
        out._raw_tensor = cls.activation_raw(tensor._raw_tensor, func)
        return out

    @classmethod
    def cast(cls, tensor: Tensor, dtype: str) -> Tensor:
        """:return: tensor with another dtype; itself if it has it"""
        if tensor.dtype == dtype:
            return tensor
        out = TemplateBackend.cast(tensor, dtype)
        out._raw_tensor = cls.cast_raw(tensor._raw_tensor, dtype)
        return out

    @classmethod
    def convert_to_tensor(
        cls,
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
        out = TemplateBackend.convert_to_tensor(
            value, dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim, name=name
        )
        if isinstance(value, cls.RawTensorType):
            out.raw_tensor = value if cls.get_dtype_name_raw(value) == dtype else cls.cast_raw(value, dtype)
        else:
            out.raw_tensor = cls.constant_raw(value, dtype, device)
        return out

    @classmethod
    def full(
        cls,
        dims: Sequence[Dim],
        fill_value: Any,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """:return: tensor with the scalar `fill_value` everywhere"""
        out = TemplateBackend.full(dims, fill_value, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)
        value = fill_value._raw_tensor if isinstance(fill_value, Tensor) else fill_value
        if not isinstance(value, cls.RawTensorType):
            value = cls.constant_raw(value, dtype, device)
        with cls.device_scope_raw(device):
            out._raw_tensor = cls.fill_raw([dim.get_dim_value() for dim in dims], value) if dims else value
        return out

    @classmethod
    def range_over_dim(cls, dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor:
        """:return: [dim]: 0, 1, 2, ..."""
        out = TemplateBackend.range_over_dim(dim, dtype=dtype)
        out._raw_tensor = cls.range_raw(dim.get_dim_value(), out.dtype, device)
        return out

    @classmethod
    def where(cls, cond: Tensor, true_: Any, false_: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """:return: elementwise choice"""
        cond = cls.as_tensor(cond)
        true_, false_ = cls._operands_or_number(true_, false_)
        out = TemplateBackend.where(cond, true_, false_, allow_broadcast_all_sources=allow_broadcast_all_sources)
        out._raw_tensor = cls.where_raw(*(raw_for_broadcast(x, out.dims) for x in (cond, true_, false_)))
        return out

    @classmethod
    def clip_by_value(
        cls, x: Tensor, clip_value_min: Any, clip_value_max: Any, *, allow_broadcast_all_sources: bool = False
    ) -> Tensor:
        """:return: elementwise at least minimum, at most maximum"""
        low, high = cls.as_tensor(clip_value_min, like=x), cls.as_tensor(clip_value_max, like=x)
        out = TemplateBackend.clip_by_value(x, low, high, allow_broadcast_all_sources=allow_broadcast_all_sources)
        raw = [raw_for_broadcast(operand, out.dims) for operand in (x, low, high)]
        out._raw_tensor = cls.combine_raw(cls.combine_raw(raw[0], "maximum", raw[1]), "minimum", raw[2])
        return out

    @classmethod
    def expand_dim(cls, source: Tensor, dim: Dim) -> Tensor:
        """:return: source with `dim` added"""
        out = TemplateBackend.expand_dim(source, dim)
        axis = next(i for i, d in enumerate(out.dims) if d == dim)
        out._raw_tensor = cls.expand_raw(cls.expand_dims_raw(source._raw_tensor, axis), axis, dim.get_dim_value())
        return out

    @classmethod
    def squeeze(cls, source: Tensor, axis: Dim) -> Tensor:
        """:return: source without `axis`"""
        out = TemplateBackend.squeeze(source, axis)
        out._raw_tensor = cls.squeeze_raw(source._raw_tensor, [source.get_axis_from_description(axis)])
        return out

    @classmethod
    def make_output_tensor(cls, tensor: Tensor, dims: Sequence[Dim], *, name: str) -> Tensor:
        """:return: tensor with its axes in the order of `dims`"""
        out = tensor.copy_compatible_to_dims(dims, add_dims=False)
        out.name = name
        return out

    @classmethod
    def reduce(cls, source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """:return: reduction"""
        dims = as_dims(axis)
        needs_mask = use_mask and any([dim.need_masking() for dim in dims])  # noqa: C419 - a list is faster here
        if needs_mask:
            source = expand_for_mask(cls, source, dims)
        out = TemplateBackend.reduce(source, mode=mode, axis=dims, use_mask=False)
        if mode == "mean":
            source = cls.cast(source, out.dtype)
        axes = [source.get_axis_from_description(dim) for dim in dims]
        if not needs_mask or mode != "mean":
            neutral = _neutral_value(mode, source.dtype)
            raw = masked_raw(source, dims, neutral) if needs_mask else source._raw_tensor
            if mode.startswith("arg"):  # there is something in memory, so that there is an index
                raw = with_at_least(source, raw, axes[0], 1, neutral, size=dims[0].get_dim_value())
            out._raw_tensor = cls.reduce_raw(raw, mode, axes)
            return out
        total = out.copy_template()
        total._raw_tensor = cls.reduce_raw(masked_raw(source, dims, 0), "sum", axes)
        return cls.combine(total, "truediv", cls._num_frames(dims, source.dtype), allow_broadcast_all_sources=True)

    @classmethod
    def _num_frames(cls, dims: Sequence[Dim], dtype: str) -> Tensor:
        """:return: over how many frames of `dims` a sequence reduces, as `dtype`; at least 1"""
        count: Any = None
        for dim in dims:
            lengths = cls.as_tensor(dim.get_size_tensor())
            inner = [d for d in lengths.dims if d in dims]
            if inner:  # the lengths differ along another reduced dim
                return _num_frames_by_mask(cls, dims, dtype)
            count = lengths if count is None else cls.combine(count, "mul", lengths, allow_broadcast_all_sources=True)
        return cls.cast(cls.combine(count, "maximum", 1), dtype)

    @classmethod
    def matmul(cls, a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """:return: matrix product, as one raw product, with at most one transpose and reshape for each operand"""
        dims = as_dims(reduce)
        a, b = cls.as_tensor(a), cls.as_tensor(b)
        needs_mask = [dim for dim in dims if dim.need_masking()] if use_mask else []
        if needs_mask:  # both operands, as 0 * NaN is NaN
            TemplateBackend.matmul(a, b, reduce=dims, use_mask=False)  # errors show the operands as they are
            a, b = (expand_for_mask(cls, x, needs_mask).copy_masked(0, dims=needs_mask) for x in (a, b))
        axes = matmul_axes(a, b, dims)
        out = matmul_template(a, b, axes)
        reduce_a, reduce_b, common_a, common_b, only_a, only_b = axes
        if cls.matmul_folds_axes and not common_a and len(b.dims) == 2 and reduce_a == [len(a.dims) - 1]:
            out._raw_tensor = cls.matmul_raw(a._raw_tensor, b._raw_tensor, transpose_b=reduce_b == [1])
            return out
        order = sorted(range(len(dims)), key=reduce_a.__getitem__)
        reduce_a, reduce_b = [reduce_a[k] for k in order], [reduce_b[k] for k in order]
        raw_a, transpose_a = cls._as_matrix(a, common_a, only_a, reduce_a)
        raw_b, transpose_b = cls._as_matrix(b, common_b, reduce_b, only_b)
        raw = cls.matmul_raw(raw_a, raw_b, transpose_a=transpose_a, transpose_b=transpose_b)
        if not (len(only_a) == 1 and len(only_b) == 1 and len(common_a) <= 1):
            raw = cls.reshape_raw(raw, cls._sizes_for_reshape(out.dims))
        out._raw_tensor = raw
        return out

    @classmethod
    def _as_matrix(cls, x: Tensor, batch: list[int], rows: list[int], columns: list[int]) -> tuple[Any, bool]:
        """
        :param x: tensor
        :param batch: axes of x, likewise rows and columns
        :return: raw tensor (batch, rows, columns), or without batch axis if there is none; and whether it has to be
            transposed still, which the product does itself
        """
        perm = [*batch, *rows, *columns]
        is_transposed = perm != sorted(perm) and [*batch, *columns, *rows] == sorted(perm)
        groups = [batch, columns, rows] if is_transposed else [batch, rows, columns]
        perm = [axis for group in groups for axis in group]
        raw = x._raw_tensor if perm == sorted(perm) else cls.transpose_raw(x._raw_tensor, perm)
        if len(batch) <= 1 and len(rows) == 1 and len(columns) == 1:
            return raw, is_transposed
        sizes_in_memory = [[x.dims[i].get_dim_value() for i in group] for group in (groups if batch else groups[1:])]
        is_known = [all(isinstance(size, int) for size in sizes) for sizes in sizes_in_memory]
        sizes = _one_size_left_out(is_known, [functools.partial(product, sizes) for sizes in sizes_in_memory])
        return cls.reshape_raw(raw, sizes), is_transposed

    @classmethod
    def _sizes_for_reshape(cls, dims: Sequence[Dim]) -> list[Any]:
        """:return: sizes, where one that is not known before is left to the library to find"""
        is_known = [dim.size is not None or dim.capacity is not None for dim in dims]
        return _one_size_left_out(is_known, [dim.get_dim_value for dim in dims])


def _one_size_left_out(is_known: Sequence[bool], sizes: Sequence[Callable[[], Any]]) -> list[Any]:
    """
    :param is_known: for each axis, whether its size is a number
    :param sizes: for each axis, how to get it
    :return: sizes. If one alone is not known, it is left to the library to find: no other one is 0 then, so it can.
    """
    if is_known.count(False) == 1:
        result = [size() if known else -1 for size, known in zip(sizes, is_known, strict=True)]
        if 0 not in result:
            return result
    return [size() for size in sizes]


def _num_frames_by_mask(backend: type[CoreArrayOps], dims: Sequence[Dim], dtype: str) -> Tensor:
    ones = backend.full(dims, 1, dtype="int32")
    count = backend.reduce(ones, mode="sum", axis=dims)
    return backend.cast(backend.combine(count, "maximum", 1), dtype)


def _neutral_value(mode: str, dtype: str) -> Any:
    """:return: the value which does not change a reduction"""
    if mode in ("any", "all"):
        return mode == "all"
    if mode in ("sum", "mean"):
        return 0
    is_low = mode in ("max", "argmax", "logsumexp")
    if dtype.startswith(("float", "bfloat")):
        return -numpy.inf if is_low else numpy.inf
    info = numpy.iinfo(dtype)
    return info.min if is_low else info.max
