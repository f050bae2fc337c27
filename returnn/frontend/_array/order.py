"""Sorted values, and the highest ones."""

from __future__ import annotations

from returnn.frontend._array.gather import gather
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.limits import extreme_value
from returnn.frontend._ops.operands import require_dims, require_numbers
from returnn.frontend._ranges import positions
from returnn.frontend.math_ import combine_bc, compare_bc, logical_or
from returnn.tensor import Dim, Tensor


def sort(source: Tensor, *, axis: Dim, descending: bool = False, stable: bool = True) -> tuple[Tensor, Tensor]:
    """
    :param source: {..., axis}
    :param axis: to sort along. Frames beyond the end of their sequence stay there.
    :param descending: the highest value first
    :param stable: equal values keep their order
    :return: sorted values {..., axis}; where they were {..., axis}, int32, indices into `axis`
    """
    require_dims("sort", source, [axis])
    require_numbers("sort", source)
    masked = source.copy_masked(extreme_value(source.dtype, highest=not descending), dims=[axis])
    return get_backend_of(masked).sort(masked, axis=axis, descending=descending, stable=stable)


def search_sorted(
    sorted_seq: Tensor, values: Tensor, *, axis: Dim, side: str = "left", out_dtype: str = "int32"
) -> Tensor:
    """
    :param sorted_seq: {batch..., axis}, ascending along `axis`
    :param values: {batch..., ...}
    :param axis: to search in
    :param side: where to insert beside equal values: "left" before the first, "right" behind the last
    :param out_dtype: "int32" or "int64"
    :return: {batch..., ...}: where in `axis` to insert the value so that it stays sorted; up to its length
    """
    require_dims("search_sorted", sorted_seq, [axis])
    masked = sorted_seq.copy_masked(extreme_value(sorted_seq.dtype, highest=True), dims=[axis])
    found = get_backend_of(masked, values).search_sorted(masked, values, axis=axis, side=side, out_dtype=out_dtype)
    if side == "right" and axis.need_masking():
        found = combine_bc(found, "min", _as_dtype(axis.get_size_tensor(), out_dtype), dim_order=found.dims)
    return found


def top_k_mask(values: Tensor, *, axis: Dim, k: int | Tensor) -> Tensor:
    """
    :param values: {..., axis}
    :param axis: frames beyond the end of their sequence do not count
    :param k: how many
    :return: {..., axis}, bool: the k highest values; of equal ones, the first
    """
    return compare_bc(_rank(values, axis), "<", k, dim_order=values.dims)


def top_p_mask(
    probs: Tensor, *, axis: Dim, p: float | Tensor, one_more: bool = True, min_tokens_to_keep: int = 1
) -> Tensor:
    """
    The smallest set of the most probable labels whose probabilities sum up to p, as in nucleus sampling
    (Holtzman et al. 2020, section 3.1).

    :param probs: {..., axis}, a distribution
    :param axis: the labels
    :param p: in [0, 1]
    :param one_more: with the label by which the sum reaches p; otherwise, only as long as the sum is at most p
    :param min_tokens_to_keep: so many, whatever p is
    :return: {..., axis}, bool
    """
    sorted_probs, indices = sort(probs, axis=axis, descending=True)
    sorted_probs = sorted_probs.copy_masked(0, dims=[axis])
    backend = get_backend_of(sorted_probs)
    total = backend.cumsum(sorted_probs, spatial_dim=axis)
    if one_more:
        total = combine_bc(total, "-", sorted_probs, dim_order=total.dims)
    keep = compare_bc(total, "<" if one_more else "<=", p, dim_order=total.dims)
    keep = logical_or(keep, compare_bc(positions(axis), "<", min_tokens_to_keep))
    return gather(keep, indices=_without_sparse_dim(_inverse(indices, axis)), axis=axis)


def _rank(values: Tensor, axis: Dim) -> Tensor:
    """:return: {..., axis}: 0 for the highest value, 1 for the next, ..."""
    _, indices = sort(values, axis=axis, descending=True)
    return _without_sparse_dim(_inverse(indices, axis))


def _inverse(permutation: Tensor, axis: Dim) -> Tensor:
    """:return: where each frame went"""
    return get_backend_of(permutation).sort(permutation, axis=axis, descending=False, stable=True)[1]


def _without_sparse_dim(x: Tensor) -> Tensor:
    return x.copy_with_roles(sparse_dim=None)


def _as_dtype(x: Tensor, dtype: str) -> Tensor:
    return get_backend_of(x).cast(x, dtype)
