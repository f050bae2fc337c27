"""Sums along an axis, complex numbers, tests for special values, and the graph of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class NumericOps:
    """Further numeric operations."""

    @staticmethod
    def cumsum(source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """:return: for each frame, the sum over all frames up to it"""
        raise NotImplementedError

    @staticmethod
    def is_finite(x: Tensor) -> Tensor:
        """:return: bool, elementwise: neither infinite nor NaN"""
        raise NotImplementedError

    @staticmethod
    def is_infinite(x: Tensor) -> Tensor:
        """:return: bool, elementwise: positive or negative infinity"""
        raise NotImplementedError

    @staticmethod
    def is_neg_infinite(x: Tensor) -> Tensor:
        """:return: bool, elementwise: negative infinity"""
        raise NotImplementedError

    @staticmethod
    def lerp(start: Tensor, end: Tensor, weight: Any, *, allow_broadcast_all_sources: bool = False) -> Tensor:
        """:return: start + weight * (end - start)"""
        raise NotImplementedError

    @staticmethod
    def make_complex(real: Tensor, imag: Tensor) -> Tensor:
        """:return: real + i * imag"""
        raise NotImplementedError

    @staticmethod
    def complex_as_real(x: Tensor, *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
        """:return: real and imaginary part along a new dim of size 2, behind all others; this dim"""
        raise NotImplementedError

    @staticmethod
    def real_as_complex(x: Tensor, *, pair_dim: Dim) -> Tensor:
        """:return: complex numbers, whose real and imaginary parts were along `pair_dim`"""
        raise NotImplementedError

    @staticmethod
    def reduce_distributed(source: Tensor, *, mode: str) -> Tensor:
        """
        :param source: what this process has, in the same shape as the others
        :param mode: "sum", "max", "min", "logsumexp", "any", "all"
        :return: reduction over all processes of a distributed training; source if there is just one
        """
        raise NotImplementedError

    @staticmethod
    def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
        """:return: what the operation that made x took as input, where the backend knows"""
        raise NotImplementedError

    @staticmethod
    def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
        """:return: results of operations which take x as input, where the backend knows"""
        raise NotImplementedError
