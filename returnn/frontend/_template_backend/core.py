"""Rules of the core operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from returnn.frontend._ops.operands import (
    as_operand,
    common_template,
    expand_for_mask,
    fail,
    numbers_of_one_kind,
    require_dims,
    require_float,
    require_numbers,
)
from returnn.frontend.dtype import get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

_NEEDS_NUMBERS = frozenset((
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "squared_difference", "logaddexp", "maximum", "minimum",
))  # fmt: skip
_KEEPS_SPARSE = frozenset(("add", "sub", "floordiv", "mod", "maximum", "minimum"))
_NOT_FOR_MATMUL = ("bool", "string", "int8", "uint8", "int16", "uint16", "uint32", "uint64")  # of some backend
_INDEX_MODES = ("argmin", "argmax")
_BOOL_MODES = ("any", "all")
REDUCE_MODES = ("sum", "max", "min", "mean", "logsumexp", "any", "all", "argmin", "argmax")
_FLOAT_FUNCS = frozenset((
    "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sigmoid", "log_sigmoid", "tanh", "sin", "cos", "elu", "selu",
    "silu", "swish", "gelu", "softplus", "reciprocal", "erf", "softsign", "tan", "atan",
))  # fmt: skip


class CoreRules:
    """Rules of the core operations. For their meaning see `returnn.frontend._interface.core`."""

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: True: there is no graph"""
        return True

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
        """:return: template"""
        a, b = _operands(a, b)
        _check_same_dtype(kind, a, b)
        if kind in _NEEDS_NUMBERS and a.dtype == "bool":
            raise DtypeError(f"{kind}: {a} and {b} are bool.\n  Use rf.cast first, or logical_and / logical_or.")
        if kind == "logaddexp":
            require_float(kind, a)
        if kind.startswith("logical") and a.dtype != "bool":
            raise DtypeError(f"{kind}: {a} and {b} should be bool. Compare with something first, such as `x > 0`.")
        out = common_template(
            kind, [a, b], allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        out.dtype = get_default_float_dtype() if kind == "truediv" and _is_int(a) else a.dtype
        out.sparse_dim = _common_sparse_dim(a, b) if kind in _KEEPS_SPARSE and out.dtype == a.dtype else None
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
        """:return: template"""
        a, b = _operands(a, b)
        _check_same_dtype(kind, a, b)
        if kind not in ("equal", "not_equal"):
            require_numbers(kind, a)
        out = common_template(
            kind, [a, b], allow_broadcast_all_sources=allow_broadcast_all_sources, dim_order=dim_order
        )
        out.dtype, out.sparse_dim = "bool", None
        return out

    @staticmethod
    def activation(tensor: Tensor, func: str) -> Tensor:
        """:return: template"""
        if func in _FLOAT_FUNCS and not tensor.dtype.startswith(("float", "bfloat", "complex")):
            raise DtypeError(f"{func}: {tensor} should be a float. Use rf.cast first.")
        if func == "logical_not" and tensor.dtype != "bool":
            raise DtypeError(f"{func}: {tensor} should be bool. Compare with something first, such as `x > 0`.")
        if func not in ("logical_not", "identity"):
            require_numbers(func, tensor, otherwise=", or rf.logical_not" if func == "neg" else "")
        out = tensor.copy_template()
        if func == "abs" and tensor.dtype.startswith("complex"):
            out.dtype = "float32" if tensor.dtype == "complex64" else "float64"
        return out

    @staticmethod
    def cast(tensor: Tensor, dtype: str) -> Tensor:
        """:return: template"""
        return tensor.copy_template(dtype=dtype)

    @staticmethod
    def copy(tensor: Tensor) -> Tensor:
        """:return: template"""
        return tensor.copy_template()

    @staticmethod
    def copy_to_device(x: Tensor, device: str | None) -> Tensor:
        """:return: template"""
        return x.copy_template()

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
        """:return: template"""
        return Tensor(name or "const", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)

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
        """:return: template"""
        return Tensor("full", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)

    @staticmethod
    def range_over_dim(dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor:
        """:return: template"""
        lengths = dim.dyn_size_ext if dim.size is None else None
        dtype = dtype or (lengths.dtype if lengths is not None else "int32")
        if dtype == "bool":
            raise DtypeError(f"range_over_dim: {dim} as bool.\n  Possible: int32, int64, float32, ...")
        return Tensor("range", dims=[dim], dtype=dtype, sparse_dim=dim if dtype.startswith("int") else None)

    @classmethod
    def reduce(cls, source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """:return: template"""
        if mode not in REDUCE_MODES:
            raise fail(f"reduce: there is no mode {mode!r}.", f"Possible: {', '.join(REDUCE_MODES)}.")
        axes = as_dims(axis)
        removed = require_dims(f"reduce_{mode}: axis", source, axes)
        _check_dtype_of_reduction(source, mode)
        if mode in _INDEX_MODES and len(axes) != 1:
            shown = ", ".join(map(str, axes))
            raise fail(f"reduce_{mode}: an index is into one dim, got {shown}.", "Use rf.merge_dims first.")
        if use_mask and any(dim.need_masking() for dim in axes):
            source = expand_for_mask(cls, source, axes)
            removed = [source.get_axis_from_description(dim) for dim in axes]
        keep = [i for i in range(len(source.dims)) if i not in removed]
        out = source._with_axes([source.dims[i] for i in keep], keep)
        if mode in _INDEX_MODES:
            out.dtype, out.sparse_dim = "int32", axes[0]
        elif mode == "mean" and _is_int(source):
            out.dtype, out.sparse_dim = get_default_float_dtype(), None
        return out

    @classmethod
    def matmul(cls, a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """:return: template. Dims: the common ones as in a, those of a alone, those of b alone."""
        dims = as_dims(reduce)
        axes = matmul_axes(a, b, dims)
        if use_mask and any(dim.need_masking() for dim in dims):
            a, b = expand_for_mask(cls, a, dims), expand_for_mask(cls, b, dims)
            axes = matmul_axes(a, b, dims)
        return matmul_template(a, b, axes)

    @staticmethod
    def where(cond: Tensor, true_: Any, false_: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """:return: template"""
        if cond.dtype != "bool":
            raise DtypeError(f"where: the condition {cond} should be bool.")
        true_, false_ = _operands(true_, false_)
        _check_same_dtype("where", true_, false_)
        out = common_template("where", [true_, false_, cond], allow_broadcast_all_sources=allow_broadcast_all_sources)
        out.dtype, out.sparse_dim = true_.dtype, _common_sparse_dim(true_, false_)
        return out

    @staticmethod
    def clip_by_value(
        x: Tensor, clip_value_min: Any, clip_value_max: Any, *, allow_broadcast_all_sources: bool = False
    ) -> Tensor:
        """:return: template"""
        require_numbers("clip_by_value", x)
        bounds = [as_operand(value, like=x) for value in (clip_value_min, clip_value_max)]
        for bound in bounds:
            _check_same_dtype("clip_by_value", x, bound)
        out = common_template("clip_by_value", [x, *bounds], allow_broadcast_all_sources=allow_broadcast_all_sources)
        out.dtype, out.sparse_dim = x.dtype, x.sparse_dim
        return out

    @staticmethod
    def expand_dim(source: Tensor, dim: Dim) -> Tensor:
        """:return: template"""
        if dim in source.dims:
            raise fail(f"expand_dim: {source} has the dim {dim} already.")
        return source._insert_dim(dim, source.get_default_new_axis_for_dim_tag(dim))

    @staticmethod
    def squeeze(source: Tensor, axis: Dim) -> Tensor:
        """:return: template"""
        require_dims("squeeze: axis", source, [axis])
        if axis.size not in (1, None):
            raise fail(f"squeeze: {source}: only a dim of size 1 can be removed, not {axis}.")
        return source.copy_template_excluding_axis(source.get_axis_from_description(axis))

    @staticmethod
    def make_output_tensor(tensor: Tensor, dims: Sequence[Dim], *, name: str) -> Tensor:
        """:return: template"""
        out = tensor.copy_template(name)
        return out.copy_compatible_to_dims(dims, add_dims=False)


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


def matmul_template(a: Tensor, b: Tensor, axes: MatmulAxes) -> Tensor:
    """:return: template of the product"""
    _check_same_dtype("matmul", a, b)
    if a.dtype in _NOT_FOR_MATMUL:
        raise DtypeError(f"matmul: {a} and {b} are {a.dtype}.\n  Use rf.cast on both first.")
    dims = [a._dims[i] for i in (*axes.common_a, *axes.only_a)] + [b._dims[i] for i in axes.only_b]
    out = Tensor("matmul", dims=dims, dtype=a.dtype, version=min(a.version, b.version))
    for operand in (b, a):
        feature = operand.feature_dim
        if feature is not None and feature in dims:
            out.feature_dim = feature
            break
    return out


def as_dims(axis: Dim | Iterable[Dim]) -> list[Dim]:
    """:return: one or several dims as list"""
    return [axis] if isinstance(axis, Dim) else list(axis)


def _operands(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """:return: both as tensors; a number takes the dtype of the tensor beside it"""
    if isinstance(a, Tensor):
        return a, as_operand(b, like=a)
    if isinstance(b, Tensor):
        return as_operand(a, like=b), b
    a, b = numbers_of_one_kind(a, b)
    return as_operand(a), as_operand(b)


def _check_dtype_of_reduction(source: Tensor, mode: str) -> None:
    if mode in _BOOL_MODES and source.dtype != "bool":
        raise DtypeError(f"reduce_{mode}: {source} should be bool. Compare with something first, such as `x > 0`.")
    if mode not in _BOOL_MODES:
        require_numbers(f"reduce_{mode}", source, otherwise=", or rf.reduce_any or rf.reduce_all")
    if mode == "logsumexp":
        require_float("reduce_logsumexp", source)


def _is_int(x: Tensor) -> bool:
    return x.dtype.startswith(("int", "uint"))


def _common_sparse_dim(a: Tensor, b: Tensor) -> Dim | None:
    if a.sparse_dim is None or b.sparse_dim is None:
        return a.sparse_dim or b.sparse_dim
    return a.sparse_dim if a.sparse_dim == b.sparse_dim else None


def _check_same_dtype(what: str, a: Tensor, b: Tensor) -> None:
    if a.dtype != b.dtype:
        raise DtypeError(
            f"{what}: the dtypes {a.dtype} and {b.dtype} differ.\n  {a} and {b}.\n  Use rf.cast on one of them."
        )
