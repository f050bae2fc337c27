"""Constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._backend import get_backend_of, get_global_backend
from returnn.frontend.device import get_default_device
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
    device = device or get_default_device()
    return get_global_backend().full(
        dims, fill_value, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim
    )


def constant(
    fill_value: Any,
    *,
    dims: Sequence[Dim],
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """:return: tensor with `fill_value` everywhere, see `full`; or, if that is an array, with its values"""
    if numpy.ndim(fill_value) and not isinstance(fill_value, Tensor):
        dtype = dtype or _dtype_of(numpy.asarray(fill_value).flat[0].item())
        device = device or get_default_device()
        return get_global_backend().convert_to_tensor(
            fill_value, dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim, device=device
        )
    return full(
        dims=dims, fill_value=fill_value, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim
    )


def fill(
    *,
    dims: Sequence[Dim],
    fill_value: Any,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """:return: tensor with `fill_value` everywhere, another name for `full`"""
    return full(
        dims=dims, fill_value=fill_value, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim
    )


def zeros(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """:return: tensor with 0 everywhere; `dtype` is the default float dtype. See `full`"""
    dtype = dtype or get_default_float_dtype()
    return full(dims=dims, fill_value=0, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim)


def ones(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
) -> Tensor:
    """:return: tensor with 1 everywhere; `dtype` is the default float dtype. See `full`"""
    dtype = dtype or get_default_float_dtype()
    return full(dims=dims, fill_value=1, dtype=dtype, device=device, sparse_dim=sparse_dim, feature_dim=feature_dim)


def zeros_like(other: Tensor) -> Tensor:
    """:return: 0 everywhere, with the dims and dtype of `other`"""
    return _full_like(other, 0)


def ones_like(other: Tensor) -> Tensor:
    """:return: 1 everywhere, with the dims and dtype of `other`"""
    return _full_like(other, 1)


def _full_like(other: Tensor, value: Any) -> Tensor:
    return get_backend_of(other).full(
        other.dims,
        value,
        dtype=other.dtype,
        device=other.device,
        sparse_dim=other.sparse_dim,
        feature_dim=other.feature_dim,
    )


def _dtype_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int32" if isinstance(value, int) else get_default_float_dtype()
