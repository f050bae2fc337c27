"""What several operations share: operands as tensors, the dims that come out of broadcasting, error texts."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy

from returnn.frontend._backends.raw import RawOps
from returnn.frontend.dtype import get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.tensor.tensor_axes import hint_for_missing_axis
from returnn.util.errors import DimError, DtypeError


def fail(what: str, *details: str) -> DimError:
    """:return: error to raise; the first line says what is wrong, the others what is possible"""
    return DimError("\n  ".join([what, *details]))


def shown(dims: Sequence[Dim]) -> str:
    """:return: dims for an error text"""
    return ", ".join(map(str, dims)) or "no dim"


def require_dims(operation: str, source: Tensor, dims: Sequence[Dim], *, operands: Sequence[Tensor] = ()) -> list[int]:
    """
    :param operation: and its argument, such as "reduce: axis"
    :param operands: all of them, for the message
    :return: the axes of the dims. If a dim is there twice, and is not asked for twice, the one with the higher priority
        counts.
    :raises DimError: if a dim is not there, or is there twice with the same priority
    """
    axes: list[int] = []
    for number, dim in enumerate(dims):
        if not has_dim(source._dims, dim):
            require_is_dim(operation, dim, source)
            details = [f"The operands are {' and '.join(map(str, operands))}."] if operands else []
            raise fail(f"{operation}: {source} has no dim {dim}.", hint_for_missing_axis(source, dim), *details)
        count = source._dims.count(dim)
        if count > 1 and dims.count(dim) == count:
            same = [axis for axis, other in enumerate(source._dims) if other == dim]
            axes.append(same[dims[:number].count(dim)])
        else:
            axes.append(source.get_axis_from_description(dim))
    return axes


def require_is_dim(operation: str, dim: object, source: Tensor | None = None) -> None:
    """
    :param operation: and its argument
    :param dim: what was given as one
    :param source: the operand
    :raises DimError: if it is none, but for example the description of an axis
    """
    if isinstance(dim, Dim):
        return
    raise fail(f"{operation}: expected a dim, got {dim!r}.", *([] if source is None else [_dim_hint(source, dim)]))


def _dim_hint(source: Tensor, description: object) -> str:
    """:return: which dim is meant by something that is none"""
    try:
        if isinstance(description, (str, int)):
            dim = source.get_dim_tag_from_description(description)
            return f"x.get_dim_tag_from_description({description!r}) of {source} is {dim}."
    except DimError:
        pass  # it describes no axis
    return f"The dims of {source} are {shown(source.dims)}."


def expand_for_mask(expand: Callable[[Tensor, Dim], Tensor], source: Tensor, dims: Sequence[Dim]) -> Tensor:
    """
    Which frames of `dims` are valid can differ along other dims, usually the batch.

    :param expand: `expand_dim` of a backend, or `expanded_template` for the dims alone
    :param source:
    :param dims: to be masked
    :return: the source with all dims that a mask over those of `dims` has which are there
    """
    for dim in dims:
        lengths = dim.dyn_size_ext if dim.need_masking() else None
        for other in () if lengths is None or not has_dim(source._dims, dim) else lengths._dims:
            if not has_dim(source._dims, other):
                source = expand(source, other)
    return source


def expanded_template(source: Tensor, dim: Dim) -> Tensor:
    """:return: template of source with `dim` added"""
    require_is_dim("expand_dim", dim, source)
    if dim in source.dims:
        raise fail(f"expand_dim: {source} has the dim {dim} already.")
    return source._insert_dim(dim, source.get_default_new_axis_for_dim_tag(dim))


def as_dims(axis: Dim | Iterable[Dim]) -> list[Dim]:
    """:return: one or several dims as list"""
    return [axis] if isinstance(axis, (Dim, str)) or not isinstance(axis, Iterable) else list(axis)


class OperandOps(RawOps[Any]):
    """Operands as tensors of the backend."""

    @classmethod
    def as_tensor(cls, value: Any, *, like: Tensor | None = None) -> Tensor:
        """:return: operand as tensor of this backend; a number takes the dtype of `like`"""
        if isinstance(value, Tensor):
            if isinstance(value._raw_tensor, cls.RawTensorType) or not cls.computes or value._raw_backend is cls:
                return value
            out = value.copy_template()
            out._raw_tensor = cls.constant_raw(value._raw_backend.raw_to_numpy(value._raw_tensor), value.dtype, None)
            return out
        out = Tensor("const", (), dtype_of_number(value, like=like))
        if cls.computes:
            out._raw_tensor = cls.constant_raw(value, out.dtype, None if like is None else like.device)
        return out

    @classmethod
    def as_tensors(cls, a: Any, b: Any) -> tuple[Tensor, Tensor]:
        """:return: both operands as tensors; a number takes the dtype of the tensor beside it, and can stay a number"""
        if isinstance(a, Tensor):
            if not isinstance(b, Tensor):
                return cls.as_tensor(a), cls._number_beside(b, a)
            if isinstance(a._raw_tensor, cls.RawTensorType) and isinstance(b._raw_tensor, cls.RawTensorType):
                return a, b  # most often; this is faster
            return cls.as_tensor(a), cls.as_tensor(b)
        if isinstance(b, Tensor):
            return cls._number_beside(a, b), cls.as_tensor(b)
        a, b = numbers_of_one_kind(a, b)
        return cls.as_tensor(a), cls.as_tensor(b)

    @classmethod
    def _number_beside(cls, value: Any, other: Tensor) -> Tensor:
        out = Tensor("const", (), dtype_of_number(value, like=other))
        if cls.computes:
            out._raw_tensor = cls.number_raw(value, out.dtype, other)
        return out


def as_operand(value: Any, *, like: Tensor | None = None) -> Tensor:
    """:return: the operand as tensor; a number becomes a scalar template, with the dtype of `like`"""
    if isinstance(value, Tensor):
        return value
    return Tensor("const", dims=(), dtype=dtype_of_number(value, like=like))


def dtype_of_number(value: Any, *, like: Tensor | None = None) -> str:
    """
    :param value: number
    :param like: the tensor beside it
    :return: dtype for the number: that of the tensor, unless this is of another kind
    :raises DimError: if it is an array
    :raises DtypeError: if it is too large
    """
    kind = _KIND_OF_TYPE.get(type(value)) or _number_kind(value)
    if like is None:
        return _default_dtype(kind, value)
    if kind in "iu" and like.dtype in _LIMITS and not _LIMITS[like.dtype][0] <= value <= _LIMITS[like.dtype][1]:
        low, high = _LIMITS[like.dtype]
        raise DtypeError(f"the number {value} does not fit into {like}.\n  Possible: {low} to {high}. Or use rf.cast.")
    fits = {"b": "b", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}.get(kind, "S")
    return like.dtype if _kind_of_dtype(like.dtype) in fits else _default_dtype(kind, value)


def numbers_of_one_kind(a: Any, b: Any) -> tuple[Any, Any]:
    """:return: both operands; of two numbers, an integer beside a float is a float as well"""
    if type(a) is int and isinstance(b, float):
        return float(a), b
    if type(b) is int and isinstance(a, float):
        return a, float(b)
    return a, b


def _number_kind(value: Any) -> str:
    shape = getattr(value, "shape", ())
    if len(shape):
        raise fail(f"an operand is a tensor or a number, not an array of shape {tuple(shape)}.", "Use rf.constant.")
    if not isinstance(value, (numbers.Number, str, bytes, numpy.generic)) and not hasattr(value, "dtype"):
        raise fail(f"an operand is a tensor or a number, not a {type(value).__name__}.")
    return numpy.asarray(value).dtype.kind


def _default_dtype(kind: str, value: Any) -> str:
    if kind == "f":
        return get_default_float_dtype()
    if kind in "iu" and not _LIMITS["int32"][0] <= value <= _LIMITS["int32"][1]:
        return "int64"
    return {"b": "bool", "i": "int32", "u": "int32", "c": "complex64"}.get(kind, "string")


_KIND_OF_TYPE: dict[type, str] = {bool: "b", int: "i", float: "f"}
_LIMITS = {
    dtype: (int(numpy.iinfo(dtype).min), int(numpy.iinfo(dtype).max))
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
}


@functools.cache
def _kind_of_dtype(dtype: str) -> str:
    if dtype.startswith("bfloat"):
        return "f"
    return "S" if dtype == "string" else numpy.dtype(dtype).kind


def common_template(
    operation: str,
    operands: Sequence[Tensor],
    *,
    allow_broadcast_all_sources: bool | None = None,
    dim_order: Sequence[Dim] | None = None,
    if_meant: str = "allow_broadcast_all_sources=True",
) -> Tensor:
    """
    :param operation: for messages
    :param operands: what comes in
    :param allow_broadcast_all_sources: whether it is fine that no operand has all dims
    :param dim_order: of the result; implies that this is fine
    :param if_meant: how a user of the operation says that it is, for the message
    :return: template with the dims of all operands. Its order is that of the operand with the most dims, so that this
        one needs no transpose; what is missing there comes behind it. Where there are hypotheses, a feature dim that
        was the last one stays it, as what follows mostly wants that.
    :raises DimError: if no operand has all dims, and `allow_broadcast_all_sources` is not set
    """
    main = operands[0]
    for operand in operands:
        if len(operand._dims) > len(main._dims):
            main = operand
    dims = list(main._dims)
    for operand in operands:
        if operand is not main and operand._dims != main._dims:
            dims += [dim for dim in operand._dims if not has_dim(dims, dim)]
    if len(dims) > len(main._dims) and main.feature_dim in main._dims[-1:] and any(dim.is_beam_dim() for dim in dims):
        dims.append(dims.pop(len(main._dims) - 1))
    has_all = len(dims) == len(main._dims)
    if not has_all and not allow_broadcast_all_sources and dim_order is None and not _has_all_but_beams(operands, dims):
        raise _no_operand_has_all_dims(operation, operands, dims, if_meant)
    if dim_order is not None:
        order = [dim for dim in dim_order if dim in dims]
        dims = order + [dim for dim in dims if dim not in order]
    if has_all and dim_order is None:
        out = main._with_same_axes(name=operation)
    else:
        positions = [main.dims.index(dim) if dim in main.dims else None for dim in dims]
        out = main._with_axes(dims, positions, name=operation)
    if out.feature_dim_axis is None:
        for operand in operands:
            if operand.feature_dim is not None and operand.feature_dim in dims:
                out.feature_dim = operand.feature_dim
                break
    return out


def _has_all_but_beams(operands: Sequence[Tensor], dims: Sequence[Dim]) -> bool:
    """:return: whether an operand has all dims but those of a search, which everything is broadcast to"""
    wanted = [dim for dim in dims if not dim.is_beam_dim()]
    return len(wanted) < len(dims) and any(all(dim in operand.dims for dim in wanted) for operand in operands)


def has_dim(dims: Sequence[Dim], dim: Dim) -> bool:
    """:return: `dim in dims`, but looks for the very object first, as this is most often found and compared fastest"""
    return any([d is dim for d in dims]) or dim in dims  # noqa: C419 - a list is faster here


def require_numbers(operation: str, source: Tensor, *, otherwise: str = "") -> None:
    """
    :param operation: for the message
    :param source: operand
    :param otherwise: what else may have been meant, for the message
    :raises DtypeError: if it is bool
    """
    if source.dtype == "bool":
        raise DtypeError(f"{operation}: {source} should not be bool.\n  Use rf.cast first{otherwise}.")


def require_float(operation: str, source: Tensor) -> None:
    """:raises DtypeError: if it is no float"""
    if not source.dtype.startswith(("float", "bfloat")):
        raise DtypeError(f"{operation}: {source} is {source.dtype}, but should be a float. Use rf.cast first.")


def _no_operand_has_all_dims(
    operation: str, operands: Sequence[Tensor], dims: Sequence[Dim], if_meant: str
) -> DimError:
    missing = [(x, [dim for dim in dims if dim not in x.dims]) for x in operands if x.dims]
    names = {dim.name for x, others in missing for dim in others if dim.name in [d.name for d in x.dims]} - {None}
    hint = f"If this is meant: {if_meant}."
    if names:
        hint = f"The dims named {', '.join(sorted(map(repr, names)))} are different ones. {hint}"
    lines = [f"{x} has no {', '.join(map(str, others))}." for x, others in missing if others]
    return fail(f"{operation}: the dims do not match.", *lines, hint)


def check_same_dtype(what: str, a: Tensor, b: Tensor) -> None:
    """:raises DtypeError: if the dtypes differ"""
    if a.dtype != b.dtype:
        raise DtypeError(
            f"{what}: the dtypes {a.dtype} and {b.dtype} differ.\n  {a} and {b}.\n  Use rf.cast on one of them."
        )


def is_int(x: Tensor) -> bool:
    """:return: whether it has integers"""
    return x.dtype.startswith(("int", "uint"))
