"""Reductions: sums, means, maxima over dims."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._backend import get_backend_of
from returnn.tensor import Dim, Tensor


def reduce(
    source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True, distributed: bool = False
) -> Tensor:
    """
    :param source: {..., axis}
    :param mode: "sum", "max", "min", "mean", "logsumexp", "any", "all", "argmin", "argmax"
    :param axis: one dim or several
    :param use_mask: leave out frames beyond the end of their sequence. The mean over an empty sequence is 0.
    :param distributed: also over all processes, if training is distributed
    :return: {...}; for "argmin" and "argmax" int32 indices into `axis`
    :raises DimError: if the source does not have a dim of `axis`
    """
    backend = get_backend_of(source)
    result = backend.reduce(source, mode=mode, axis=axis, use_mask=use_mask)
    return backend.reduce_distributed(result, mode=mode) if distributed else result


def reduce_sum(
    source: Tensor, *, axis: Dim | Sequence[Dim], use_mask: bool = True, distributed: bool = False
) -> Tensor:
    """:return: sum over the dims, see `reduce`"""
    return reduce(source, mode="sum", axis=axis, use_mask=use_mask, distributed=distributed)


def reduce_max(source: Tensor, *, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """:return: maximum over the dims, see `reduce`"""
    return reduce(source, mode="max", axis=axis, use_mask=use_mask)


def reduce_min(source: Tensor, *, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """:return: minimum over the dims, see `reduce`"""
    return reduce(source, mode="min", axis=axis, use_mask=use_mask)


def reduce_mean(source: Tensor, *, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """:return: mean over the dims, see `reduce`"""
    return reduce(source, mode="mean", axis=axis, use_mask=use_mask)


def reduce_logsumexp(source: Tensor, *, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """:return: log of the sum of exp over the dims, without overflow, see `reduce`"""
    return reduce(source, mode="logsumexp", axis=axis, use_mask=use_mask)


def reduce_any(source: Tensor, *, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """:return: whether any is true along the dims, see `reduce`"""
    return reduce(source, mode="any", axis=axis, use_mask=use_mask)


def reduce_all(source: Tensor, *, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """:return: whether all are true along the dims, see `reduce`"""
    return reduce(source, mode="all", axis=axis, use_mask=use_mask)


def reduce_argmin(source: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
    """:return: index of the minimum, see `reduce`"""
    return reduce(source, mode="argmin", axis=axis, use_mask=use_mask)


def reduce_argmax(source: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
    """:return: index of the maximum, see `reduce`"""
    return reduce(source, mode="argmax", axis=axis, use_mask=use_mask)
