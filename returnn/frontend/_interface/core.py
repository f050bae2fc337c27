"""Operations which all others are made of: elementwise, constants, reductions, matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor

Scalar = int | float | complex | bool | str | numpy.number | numpy.ndarray


class CoreOps:
    """The core operations."""

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
        raise NotImplementedError

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
        raise NotImplementedError

    @staticmethod
    def activation(tensor: Tensor, func: str) -> Tensor:
        """:return: elementwise function, such as "tanh", "sigmoid", "relu", "exp", "neg" """
        raise NotImplementedError

    @staticmethod
    def cast(tensor: Tensor, dtype: str) -> Tensor:
        """:return: tensor with another dtype"""
        raise NotImplementedError

    @staticmethod
    def copy(tensor: Tensor) -> Tensor:
        """:return: a copy; changing one in place does not change the other"""
        raise NotImplementedError

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
        """:return: tensor with this value: raw tensor, number, numpy array"""
        raise NotImplementedError

    @staticmethod
    def full(
        dims: Sequence[Dim],
        fill_value: Scalar | Tensor,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """:return: tensor with the scalar `fill_value` everywhere"""
        raise NotImplementedError

    @staticmethod
    def range_over_dim(dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor:
        """:return: [dim]: 0, 1, 2, ..."""
        raise NotImplementedError

    @staticmethod
    def reduce(source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.reduce`."""
        raise NotImplementedError

    @staticmethod
    def matmul(a: Tensor, b: Tensor, *, reduce: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.matmul`."""
        raise NotImplementedError

    @staticmethod
    def where(
        cond: Tensor, true_: Tensor | Scalar, false_: Tensor | Scalar, *, allow_broadcast_all_sources: bool = False
    ) -> Tensor:
        """See `returnn.frontend.where`."""
        raise NotImplementedError

    @staticmethod
    def clip_by_value(
        x: Tensor,
        clip_value_min: Tensor | Scalar,
        clip_value_max: Tensor | Scalar,
        *,
        allow_broadcast_all_sources: bool = False,
    ) -> Tensor:
        """See `returnn.frontend.clip_by_value`."""
        raise NotImplementedError

    @staticmethod
    def expand_dim(source: Tensor, dim: Dim) -> Tensor:
        """:return: source with `dim` added, the values repeated along it"""
        raise NotImplementedError

    @staticmethod
    def squeeze(source: Tensor, axis: Dim) -> Tensor:
        """:return: source without `axis`, which has size 1"""
        raise NotImplementedError

    @staticmethod
    def make_output_tensor(tensor: Tensor, dims: Sequence[Dim], *, name: str) -> Tensor:
        """:return: tensor with its axes in the order of `dims`"""
        raise NotImplementedError

    @staticmethod
    def get_device(x: Tensor) -> str | None:
        """:return: where the value is; None if not known"""
        return None

    @staticmethod
    def copy_to_device(x: Tensor, device: str | None) -> Tensor:
        """:return: the tensor with its value on the device, such as "cpu" or "cuda" """
        return x
