"""Tensors from values that are no tensors, and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.elementwise import Scalar
from returnn.frontend._ops.operands import OperandOps
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class CreationOps(OperandOps):
    """Tensors from values that are no tensors, and copies."""

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
        """:return: tensor with this value: raw tensor, number, numpy array"""
        out = Tensor(name or "const", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)
        if not cls.computes:
            return out
        if isinstance(value, cls.RawTensorType):
            with cls.device_scope_raw(device):
                out.raw_tensor = value if cls.get_dtype_name_raw(value) == dtype else cls.cast_raw(value, dtype)
        else:
            out.raw_tensor = cls.constant_raw(value, dtype, device)
        return out

    @classmethod
    def full(
        cls,
        dims: Sequence[Dim],
        fill_value: Scalar | Tensor,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """:return: tensor with the scalar `fill_value` everywhere"""
        out = Tensor("full", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)
        if not cls.computes:
            return out
        value = fill_value._raw_tensor if isinstance(fill_value, Tensor) else fill_value
        if not isinstance(value, cls.RawTensorType):
            value = cls.constant_raw(value, dtype, device)
        with cls.device_scope_raw(device):
            out._raw_tensor = cls.fill_raw([dim.get_dim_value() for dim in dims], value) if dims else value
        return out

    @classmethod
    def range_over_dim(cls, dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor:
        """:return: [dim]: 0, 1, 2, ..."""
        lengths = dim.dyn_size_ext if dim.size is None else None
        dtype = dtype or (lengths.dtype if lengths is not None else "int32")
        if dtype == "bool":
            raise DtypeError(f"range_over_dim: {dim} as bool.\n  Possible: int32, int64, float32, ...")
        out = Tensor("range", dims=[dim], dtype=dtype, sparse_dim=dim if dtype.startswith("int") else None)
        if cls.computes:
            out._raw_tensor = cls.range_raw(dim.get_dim_value(), dtype, device)
        return out

    @classmethod
    def copy(cls, tensor: Tensor) -> Tensor:
        """:return: a copy; changing one in place does not change the other"""
        out = tensor.copy_template()
        if cls.computes:
            out._raw_tensor = cls.copy_raw(tensor._raw_tensor)
        return out
