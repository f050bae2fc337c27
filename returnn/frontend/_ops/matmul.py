"""Products of matrices: sums of products over given dims, for each entry of the dims that both operands have."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from returnn.frontend._ops.axes import AxesOps
from returnn.frontend._ops.layout import one_size_left_out, product, sizes_for_reshape
from returnn.frontend._ops.operands import as_dims, check_same_dtype, expand_for_mask, require_dims
from returnn.frontend._ops.precision import PrecisionOps
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

_UNSUPPORTED = ("bool", "string", "int8", "uint8", "int16", "uint16", "uint32", "uint64")  # by some backend


class MatmulOps(AxesOps, PrecisionOps):
    """Products of matrices."""

    @classmethod
    def matmul(cls, a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """
        See `returnn.frontend.matmul`. Dims: the common ones as in a, those of a alone, those of b alone.

        Computed as one raw product, with at most one transpose and reshape for each operand.
        """
        dims = as_dims(reduce)
        a, b = cls.as_tensor(a), cls.as_tensor(b)
        axes = matmul_axes(a, b, dims)
        check_same_dtype("matmul", a, b)
        if a.dtype in _UNSUPPORTED:
            raise DtypeError(f"matmul: {a} and {b} are {a.dtype}.\n  Use rf.cast on both first.")
        masked = [dim for dim in dims if dim.need_masking()] if use_mask else []
        if masked:
            a, b = expand_for_mask(cls.expand_dim, a, masked), expand_for_mask(cls.expand_dim, b, masked)
            axes = matmul_axes(a, b, dims)
        out = _template(a, b, axes)
        if cls.computes:
            if masked:  # both operands, as 0 * NaN is NaN
                a, b = a.copy_masked(0, dims=masked), b.copy_masked(0, dims=masked)
            out._raw_tensor = cls._product(a, b, axes, out)
        return out

    @classmethod
    def _product(cls, a: Tensor, b: Tensor, axes: MatmulAxes, out: Tensor) -> Any:
        """:return: raw tensor (common..., only a..., only b...)"""
        reduce_a, reduce_b, common_a, common_b, only_a, only_b = axes
        if cls.matmul_folds_axes and not common_a and len(b.dims) == 2 and reduce_a == [len(a.dims) - 1]:
            multiply = functools.partial(cls.matmul_raw, transpose_b=reduce_b == [1])
            return cls.product_raw(multiply, a._raw_tensor, b._raw_tensor, dtype=a.dtype)
        order = sorted(range(len(reduce_a)), key=reduce_a.__getitem__)
        reduce_a, reduce_b = [reduce_a[k] for k in order], [reduce_b[k] for k in order]
        raw_a, transpose_a = cls._as_matrix(a, common_a, only_a, reduce_a)
        raw_b, transpose_b = cls._as_matrix(b, common_b, reduce_b, only_b)
        multiply = functools.partial(cls.matmul_raw, transpose_a=transpose_a, transpose_b=transpose_b)
        raw = cls.product_raw(multiply, raw_a, raw_b, dtype=a.dtype)
        if len(only_a) == 1 and len(only_b) == 1 and len(common_a) <= 1:
            return raw
        return cls.reshape_raw(raw, sizes_for_reshape(out.dims))

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
        sizes = one_size_left_out(is_known, [functools.partial(product, sizes) for sizes in sizes_in_memory])
        return cls.reshape_raw(raw, sizes), is_transposed


class MatmulAxes(NamedTuple):
    """Which axes of the operands have which part in a matrix product."""

    reduce_a: list[int]
    reduce_b: list[int]  # the same dims
    common_a: list[int]
    common_b: list[int]  # the same dims
    only_a: list[int]
    only_b: list[int]


def matmul_axes(a: Tensor, b: Tensor, reduce: Sequence[Dim]) -> MatmulAxes:
    """
    :return: the axes to sum over, those that both have otherwise, and those of one operand alone
    :raises DimError: if a dim is not there
    """
    reduce_a = require_dims("matmul: reduce", a, reduce, operands=(a, b))
    reduce_b = require_dims("matmul: reduce", b, reduce, operands=(a, b))
    rest_b = {axis: dim for axis, dim in enumerate(b._dims) if axis not in reduce_b}
    common_a, common_b, only_a = [], [], []
    for axis, dim in enumerate(a._dims):
        if axis in reduce_a:
            continue
        other = next((j for j, d in rest_b.items() if d is dim or d == dim), None)
        if other is None:
            only_a.append(axis)
        else:
            common_a.append(axis)
            common_b.append(other)
            del rest_b[other]
    return MatmulAxes(reduce_a, reduce_b, common_a, common_b, only_a, list(rest_b))


def _template(a: Tensor, b: Tensor, axes: MatmulAxes) -> Tensor:
    dims = [a._dims[i] for i in (*axes.common_a, *axes.only_a)] + [b._dims[i] for i in axes.only_b]
    features = (operand.feature_dim for operand in (b, a))
    feature = next((dim for dim in features if dim is not None and dim in dims), None)
    out = Tensor("matmul", dims=dims, dtype=a.dtype, feature_dim=feature, version=min(a.version, b.version))
    for operand in (a, b):  # where somebody has said it
        axis = operand.time_dim_axis_or_unspecified
        if isinstance(axis, int) and operand.dims[axis] in dims:
            return out.copy_with_roles(time_dim=operand.dims[axis])
    return out
