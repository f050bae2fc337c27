"""Constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._backend import get_global_backend
from returnn.frontend.dtype import get_default_float_dtype
from returnn.tensor import Dim, Tensor


def full(
    *,
    dims: Sequence[Dim],
    fill_value: Any,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """
    :param dims: of the result
    :param fill_value: number, or scalar tensor
    :param dtype: default: that of the value, the default float dtype for floats
    :param device: such as "cpu"
    :param sparse_dim: what the values are indices into
    :param feature_dim: one of the dims
    :return: tensor with `fill_value` everywhere
    """
    if dtype is None:
        dtype = fill_value.dtype if isinstance(fill_value, Tensor) else _dtype_of(fill_value)
    return get_global_backend().full(
        dims, fill_value, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim
    )


def _dtype_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int32" if isinstance(value, int) else get_default_float_dtype()
