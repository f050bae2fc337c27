"""Reductions: sums, means, maxima over dims."""

from __future__ import annotations

from collections.abc import Sequence
from math import log as log_of_number
from typing import overload

from returnn.frontend._backend import get_backend_of
from returnn.frontend._num_elements import num_elements_of_shape
from returnn.frontend._ops.limits import extreme_value
from returnn.frontend._ops.operands import as_dims, fail, require_dims, require_numbers
from returnn.frontend._out_dims import out_dim_for
from returnn.frontend.math_ import combine, log, maximum
from returnn.tensor import Dim, Tensor
from returnn.tensor.plans import plans


def reduce(
    source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True, distributed: bool = False
) -> Tensor:
    """
    :param source: {..., axis}
    :param mode: "sum", "max", "min", "mean", "logsumexp", "any", "all", "argmin", "argmax"
    :param axis: one dim or several
    :param use_mask: leave out frames beyond the end of their sequence
    :param distributed: also over all processes, if training is distributed
    :return: {...}; for "argmin" and "argmax" int32 indices into `axis`, the first one if there are several. Over an
        empty sequence, the sum, the mean and the index are 0, the maximum is the lowest number of the dtype (of floats
        -inf), the minimum the highest one, "logsumexp" is -inf, "any" false, "all" true.
    :raises DimError: if the source does not have a dim of `axis`
    """
    if not distributed and (out := plans.run(mode, source, axis)) is not None:
        return out  # type: ignore[no-any-return]
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


def reduce_logmeanexp(source: Tensor, *, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
    """:return: log of the mean of exp over the dims, without overflow; -inf for an empty sequence. See `reduce`"""
    total = reduce_logsumexp(source, axis=axis, use_mask=use_mask)
    count = num_elements_of_shape(axis, use_mask=use_mask)
    if isinstance(count, int):
        return total - log_of_number(max(count, 1))
    count = get_backend_of(count).cast(maximum(count, 1), source.dtype)
    return combine(total, "-", log(count), allow_broadcast_all_sources=True)


def reduce_out(source: Tensor, *, mode: str, num_pieces: int, out_dim: Dim | None = None) -> Tensor:
    """
    Reduces neighbouring features, as maxout does (Goodfellow et al. 2013).

    :param source: {..., F}
    :param mode: see `reduce`
    :param num_pieces: how many features become one
    :param out_dim: the new feature dim; default: F / num_pieces
    :return: {..., out_dim}
    """
    feature = source.feature_dim
    if feature is None:
        raise fail(f"reduce_out: {source} has no feature dim.")
    if feature.size is not None and feature.size % num_pieces:
        raise fail(f"reduce_out: {source}: {feature} cannot be divided into pieces of {num_pieces}.")
    out_dim = out_dim_for("reduce_out", out_dim, feature.div_right(num_pieces))
    pieces = Dim(num_pieces, name="pieces", auto_generated=True)
    backend = get_backend_of(source)
    out = reduce(backend.split_dims(source, axis=feature, dims=[out_dim, pieces]), mode=mode, axis=pieces)
    return out.copy_with_roles(feature_dim=out_dim)


@overload
def top_k(
    source: Tensor,
    *,
    axis: Dim,
    k: int | Tensor | None = None,
    k_dim: Dim | None = None,
    sorted: bool = True,
) -> tuple[Tensor, Tensor, Dim]: ...


@overload
def top_k(
    source: Tensor,
    *,
    axis: Sequence[Dim],
    k: int | Tensor | None = None,
    k_dim: Dim | None = None,
    sorted: bool = True,
) -> tuple[Tensor, Sequence[Tensor], Dim]: ...


def top_k(
    source: Tensor,
    *,
    axis: Dim | Sequence[Dim],
    k: int | Tensor | None = None,
    k_dim: Dim | None = None,
    sorted: bool = True,
) -> tuple[Tensor, Tensor | Sequence[Tensor], Dim]:
    """
    The highest values. If there are not enough frames in a sequence, the lowest number of the dtype comes behind them,
    with any index.

    :param source: {..., axis}
    :param axis: one dim or several
    :param k: how many; default: the size of `k_dim`
    :param k_dim: the new dim; default: made from k
    :param sorted: the highest one first
    :return: [..., k_dim] values; [..., k_dim] indices, into the axis; if several dims were given, a sequence with the
        indices into each of them; k_dim
    """
    axes = as_dims(axis)
    require_dims("top_k", source, axes)
    require_numbers("top_k", source)
    if k is None:
        if k_dim is None:
            raise fail(f"top_k: {source}: give k or k_dim.")
        k = k_dim.size if k_dim.size is not None else k_dim.get_dim_value_tensor()
    k_dim = out_dim_for("top_k", k_dim, Dim(k, name="top-k"))
    masked = source.copy_masked(extreme_value(source.dtype, highest=False), dims=axes)
    return get_backend_of(masked).top_k(masked, axis=axis, k=k, k_dim=k_dim, sorted=sorted)
