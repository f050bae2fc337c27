"""Values of parameters that are changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import OperandOps, as_dims, as_operand, fail, require_dims
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError, check_known

_ASSIGN_OPS = ("assign", "add")


class ParameterOps(OperandOps):
    """Values of parameters that are changed in place."""

    @classmethod
    def parameter_assign(cls, param: Tensor, value: Tensor, *, op: str = "assign") -> None:
        """
        :param param: `Parameter`, is changed in place
        :param value: its dims are among those of the parameter
        :param op: "assign" or "add"
        """
        check_known("op", op, _ASSIGN_OPS, where="parameter_assign")
        _check_value("assign", param, value, param.dims)
        if cls.computes:
            cls.parameter_assign_raw(param, value, op)

    @classmethod
    def parameter_assign_key(
        cls,
        param: Tensor,
        key: Any,
        value: Tensor,
        *,
        op: str = "assign",
        axis: Dim | Sequence[Dim] | None = None,
        key_dim: Dim | Sequence[Dim | None] | None = None,
    ) -> None:
        """
        `param[key] = value`, see `returnn.frontend.parameter.Parameter.assign_key`.

        :param param: `Parameter`, is changed in place
        :param key: number, tensor of indices, or slice; one for each of `axis`
        :param value: dims of the parameter without `axis`, and those of the keys
        :param op: "assign" or "add"
        :param axis: which axes the keys are for; None: the sparse dims of the keys
        :param key_dim: for each key that is a slice, the dim of what it cuts out
        """
        check_known("op", op, _ASSIGN_OPS, where="parameter_assign_key")
        axes, keys, dims = assign_key_dims(param, key, axis, key_dim)
        _check_value("assign_key", param, value, [*dims, *(d for d in param.dims if d not in axes)])
        if cls.computes:
            cls.parameter_assign_key_raw(param, axes, keys, dims, value, op)


def _check_value(operation: str, param: Tensor, value: Any, dims: Sequence[Dim]) -> None:
    """:raises DimError: if the value has dims that are not among `dims`"""
    value = as_operand(value, like=param)
    extra = [str(dim) for dim in value.dims if dim not in dims]
    if extra:
        shown = ", ".join(map(str, dims))
        raise fail(f"{operation}: {value} has the dim {', '.join(extra)}.", f"{param} takes the dims {shown}.")
    if value.dtype != param.dtype:
        raise DtypeError(
            f"{operation}: {param} has the dtype {param.dtype}, the value {value} has {value.dtype}.\n"
            "  Use rf.cast on the value."
        )


def assign_key_dims(
    param: Tensor, key: Any, axis: Dim | Sequence[Dim] | None, key_dim: Dim | Sequence[Dim | None] | None
) -> tuple[list[Dim], list[Any], list[Dim]]:
    """
    :return: the axes; for each of them the key: number, tensor of indices, or (slice, dim of what it cuts out); and the
        dims that all keys have
    :raises DimError: if they do not fit together
    """
    keys = list(key) if isinstance(key, (list, tuple)) else [key]
    axes = _axes_of_keys(keys) if axis is None else as_dims(axis)
    require_dims("assign_key", param, axes)
    key_dims = [key_dim] if key_dim is None or isinstance(key_dim, Dim) else list(key_dim)
    key_dims += [None] * (len(keys) - len(key_dims))
    if not len(keys) == len(axes) == len(key_dims):
        raise fail(
            f"assign_key: {len(keys)} keys, {len(axes)} axes and {len(key_dims)} key dims were given for {param}."
        )
    dims: list[Dim] = []
    for i, (one_key, one_dim, dim) in enumerate(zip(keys, key_dims, axes, strict=True)):
        if isinstance(one_key, slice):
            if one_dim is None:
                raise fail(f"assign_key: the slice of {dim} of {param} needs a key_dim.")
            keys[i] = (one_key, one_dim)
            dims.append(one_dim)
        elif isinstance(one_key, Tensor):
            dims += [d for d in one_key.dims if d not in dims]
    return axes, keys, dims


def _axes_of_keys(keys: Sequence[Any]) -> list[Dim]:
    axes = []
    for key in keys:
        if not isinstance(key, Tensor) or key.sparse_dim is None:
            raise fail(f"assign_key: which axis is the key {key!r} for?", "Give `axis`.")
        axes.append(key.sparse_dim)
    return axes
