"""Operations on each entry: combinations, comparisons, functions, casts, choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._ops.layout import raw_for_broadcast
from returnn.frontend._ops.operands import (
    OperandOps,
    check_same_dtype,
    common_template,
    is_int,
    require_float,
    require_numbers,
)
from returnn.frontend.dtype import get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

Scalar = int | float | complex | bool | str | numpy.number | numpy.ndarray

_NEEDS_NUMBERS = frozenset(
    (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "squared_difference",
        "logaddexp",
        "maximum",
        "minimum",
    )
)
_KEEPS_SPARSE = frozenset(("add", "sub", "floordiv", "mod", "maximum", "minimum"))
_FLOAT_FUNCS = frozenset(
    (
        "exp",
        "expm1",
        "log",
        "log1p",
        "sqrt",
        "rsqrt",
        "sigmoid",
        "log_sigmoid",
        "tanh",
        "sin",
        "cos",
        "elu",
        "selu",
        "silu",
        "swish",
        "gelu",
        "softplus",
        "reciprocal",
        "erf",
        "softsign",
        "tan",
        "atan",
    )
)


def _said_by(function: str, kind: str) -> str:
    """:return: how broadcasting is said to be fine: functions as rf.add, and operators, have no option for it"""
    return f'rf.{function}(a, "{kind}", b), or in a layer "allow_broadcast_all_sources": True'


class ElementwiseOps(OperandOps):
    """
    Operations on each entry.

    Operands are broadcast by their dims: the result has all dims of all operands.
    """

    @classmethod
    def combine(
        cls,
        a: Tensor | Scalar,
        kind: str,
        b: Tensor | Scalar,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """See `returnn.frontend.combine`; `kind` is one of `combine_raw`."""
        a, b = cls.as_tensors(a, b)
        check_same_dtype(kind, a, b)
        if kind in _NEEDS_NUMBERS and a.dtype == "bool":
            raise DtypeError(f"{kind}: {a} and {b} are bool.\n  Use rf.cast first, or logical_and / logical_or.")
        if kind == "logaddexp":
            require_float(kind, a)
        if kind.startswith("logical") and a.dtype != "bool":
            raise DtypeError(f"{kind}: {a} and {b} should be bool. Compare with something first, such as `x > 0`.")
        out = common_template(
            kind,
            [a, b],
            allow_broadcast_all_sources=allow_broadcast_all_sources,
            dim_order=dim_order,
            if_meant=_said_by("combine_bc", kind),
        )
        out.dtype = get_default_float_dtype() if kind == "truediv" and is_int(a) else a.dtype
        out.sparse_dim = _common_sparse_dim(a, b) if kind in _KEEPS_SPARSE and out.dtype == a.dtype else None
        if cls.computes:
            if out.dtype != a.dtype:  # integers were divided
                a, b = cls.cast(a, out.dtype), cls.cast(b, out.dtype)
            out._raw_tensor = cls.combine_raw(raw_for_broadcast(a, out.dims), kind, raw_for_broadcast(b, out.dims))
        return out

    @classmethod
    def compare(
        cls,
        a: Tensor | Scalar,
        kind: str,
        b: Tensor | Scalar,
        *,
        allow_broadcast_all_sources: bool | None = None,
        dim_order: Sequence[Dim] | None = None,
    ) -> Tensor:
        """See `returnn.frontend.compare`; `kind` is one of `compare_raw`."""
        a, b = cls.as_tensors(a, b)
        check_same_dtype(kind, a, b)
        if kind not in ("equal", "not_equal"):
            require_numbers(kind, a)
        out = common_template(
            kind,
            [a, b],
            allow_broadcast_all_sources=allow_broadcast_all_sources,
            dim_order=dim_order,
            if_meant=_said_by("compare_bc", kind),
        )
        out.dtype, out.sparse_dim = "bool", None
        if cls.computes:
            out._raw_tensor = cls.compare_raw(raw_for_broadcast(a, out.dims), kind, raw_for_broadcast(b, out.dims))
        return out

    @classmethod
    def activation(cls, tensor: Tensor, func: str) -> Tensor:
        """:return: elementwise function, such as "tanh", "sigmoid", "relu", "exp", "neg" """
        if func in _FLOAT_FUNCS and not tensor.dtype.startswith(("float", "bfloat", "complex")):
            raise DtypeError(f"{func}: {tensor} should be a float. Use rf.cast first.")
        if func == "logical_not" and tensor.dtype != "bool":
            raise DtypeError(f"{func}: {tensor} should be bool. Compare with something first, such as `x > 0`.")
        if func not in ("logical_not", "identity"):
            require_numbers(func, tensor, otherwise=", or rf.logical_not" if func == "neg" else "")
        out = tensor.copy_template()
        if func == "abs" and tensor.dtype.startswith("complex"):
            out.dtype = "float32" if tensor.dtype == "complex64" else "float64"
        if cls.computes:
            out._raw_tensor = cls.activation_raw(tensor._raw_tensor, func)
        return out

    @classmethod
    def cast(cls, tensor: Tensor, dtype: str) -> Tensor:
        """:return: tensor with another dtype; itself if it has it and a value"""
        if cls.computes and tensor.dtype == dtype:
            return tensor
        out = tensor.copy_template(dtype=dtype)
        if cls.computes:
            out._raw_tensor = cls.cast_raw(tensor._raw_tensor, dtype)
        return out

    @classmethod
    def where(
        cls, cond: Tensor, true_: Tensor | Scalar, false_: Tensor | Scalar, *, allow_broadcast_all_sources: bool = False
    ) -> Tensor:
        """See `returnn.frontend.where`."""
        cond = cls.as_tensor(cond)
        if cond.dtype != "bool":
            raise DtypeError(f"where: the condition {cond} should be bool.")
        true_, false_ = cls.as_tensors(true_, false_)
        check_same_dtype("where", true_, false_)
        out = common_template("where", [true_, false_, cond], allow_broadcast_all_sources=allow_broadcast_all_sources)
        out.dtype, out.sparse_dim = true_.dtype, _common_sparse_dim(true_, false_)
        if cls.computes:
            out._raw_tensor = cls.where_raw(*(raw_for_broadcast(x, out.dims) for x in (cond, true_, false_)))
        return out

    @classmethod
    def clip_by_value(
        cls,
        x: Tensor,
        clip_value_min: Tensor | Scalar,
        clip_value_max: Tensor | Scalar,
        *,
        allow_broadcast_all_sources: bool = False,
    ) -> Tensor:
        """See `returnn.frontend.clip_by_value`."""
        require_numbers("clip_by_value", x)
        low, high = cls.as_tensor(clip_value_min, like=x), cls.as_tensor(clip_value_max, like=x)
        for bound in (low, high):
            check_same_dtype("clip_by_value", x, bound)
        operands = [x, low, high]
        out = common_template("clip_by_value", operands, allow_broadcast_all_sources=allow_broadcast_all_sources)
        out.dtype, out.sparse_dim = x.dtype, x.sparse_dim
        if cls.computes:
            value, least, most = (raw_for_broadcast(operand, out.dims) for operand in operands)
            out._raw_tensor = cls.combine_raw(cls.combine_raw(value, "maximum", least), "minimum", most)
        return out

    @classmethod
    def lerp(cls, start: Tensor, end: Tensor, weight: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """:return: start + weight * (end - start)"""
        start, end, weight = cls.as_tensor(start), cls.as_tensor(end), cls.as_tensor(weight, like=start)
        operands = [start, end, weight]
        for operand in operands[1:]:
            if operand.dtype != start.dtype:
                raise DtypeError(f"lerp: the dtypes of {start} and {operand} differ.\n  Use rf.cast on one of them.")
        out = common_template("lerp", operands, allow_broadcast_all_sources=allow_broadcast_all_sources)
        if cls.computes:
            a, b, w = (raw_for_broadcast(x, out.dims) for x in operands)
            out._raw_tensor = cls.combine_raw(a, "add", cls.combine_raw(w, "mul", cls.combine_raw(b, "sub", a)))
        return out

    @classmethod
    def is_finite(cls, x: Tensor) -> Tensor:
        """:return: bool, elementwise: neither infinite nor NaN"""
        return cls._test(x, "finite")

    @classmethod
    def is_infinite(cls, x: Tensor) -> Tensor:
        """:return: bool, elementwise: positive or negative infinity"""
        return cls._test(x, "infinite")

    @classmethod
    def is_neg_infinite(cls, x: Tensor) -> Tensor:
        """:return: bool, elementwise: negative infinity"""
        return cls._test(x, "neg_infinite")

    @classmethod
    def _test(cls, x: Tensor, kind: str) -> Tensor:
        out = x.copy_template(dtype="bool")
        out.sparse_dim = None
        if cls.computes:
            out._raw_tensor = cls.test_raw(x._raw_tensor, kind)
        return out


def _common_sparse_dim(a: Tensor, b: Tensor) -> Dim | None:
    if a.sparse_dim is None or b.sparse_dim is None:
        return a.sparse_dim or b.sparse_dim
    return a.sparse_dim if a.sparse_dim == b.sparse_dim else None
