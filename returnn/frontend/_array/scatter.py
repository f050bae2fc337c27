"""Values to the places that indices say, the inverse of `gather`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array.convert import cast, where
from returnn.frontend._array.gather import gather, valid_only, wide_indices
from returnn.frontend._array.merge_split import merge_dims
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.limits import extreme_value
from returnn.frontend._ops.operands import as_dims, fail
from returnn.frontend._ranges import positions
from returnn.frontend._use_mask import use_mask_default
from returnn.frontend.math_ import combine_bc, compare, exp, log, maximum
from returnn.tensor import Dim, Tensor


def scatter(
    source: Tensor,
    *,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    mode: str = "sum",
    fill_value: Any = None,
    out_dim: Dim | Sequence[Dim] | None = None,
    use_mask: bool | None = None,
) -> Tensor:
    """
    Values with the same index are reduced: `output[b, indices[b, t], f] += source[b, t, f]`.

    :param source: {batch..., indices_dim..., ...}
    :param indices: {batch..., indices_dim...}
    :param indices_dim: the dims to reduce over
    :param mode: "sum", "max", "min"
    :param fill_value: where there is no index; default 0 for "sum", otherwise the lowest or highest number
    :param out_dim: which the indices are into; if several, into all of them merged. Default: sparse dim of the indices
    :param use_mask: leave out frames beyond the end of their sequence. Default: see `use_mask_default`
    :return: [batch..., out_dim..., ...]
    """
    out_dim = _out_dim(indices, out_dim)
    indices = wide_indices(indices)
    if use_mask is None:
        use_mask = use_mask_default(default=True, func_name="scatter")
    if use_mask:
        indices = valid_only(indices, -1)
        if mode != "sum":  # the gradient of a maximum compares, and NaN is not equal to itself
            source = source.copy_masked(0, dims=_masked_dims(source, indices_dim))
    if fill_value is None:
        fill_value = 0 if mode == "sum" else extreme_value(source.dtype, highest=mode == "min")
    return get_backend_of(source, indices).scatter(
        source, indices=indices, indices_dim=indices_dim, mode=mode, fill_value=fill_value, out_dim=out_dim
    )


def scatter_argmax(
    source: Tensor,
    *,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    invalid_idx: int = -1,
    out_dim: Dim | Sequence[Dim] | None = None,
) -> Tensor:
    """
    :param source: {batch..., indices_dim, ...}
    :param indices: {batch..., indices_dim}
    :param indices_dim: the dim to reduce over
    :param invalid_idx: where there is no index
    :param out_dim: see `scatter`
    :return: [batch..., out_dim, ...]: where in `indices_dim` the highest of the values with this index is, the first
        one if there are several
    """
    dims = as_dims(indices_dim)
    if len(dims) != 1:
        raise fail(f"scatter_argmax: {source}: an index is into one dim, got {dims}.", "Merge the dims first.")
    out_dim = _out_dim(indices, out_dim)
    if not isinstance(out_dim, Dim):
        raise fail(f"scatter_argmax: {source}: there can be one out dim, got {out_dim}.")
    highest = scatter(source, indices=indices, indices_dim=dims, mode="max", out_dim=out_dim, use_mask=True)
    is_highest = compare(_gathered(highest, indices, out_dim), "==", source, dim_order=source.dims)
    nowhere = extreme_value("int32", highest=True)
    place = where(is_highest, positions(dims[0]), nowhere, allow_broadcast_all_sources=True)
    first = scatter(place, indices=indices, indices_dim=dims, mode="min", out_dim=out_dim, use_mask=True)
    return where(compare(first, "==", nowhere), invalid_idx, first).copy_with_roles(sparse_dim=dims[0])


def scatter_count(
    *,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    out_dim: Dim | Sequence[Dim] | None = None,
    fill_value: Any = None,
) -> Tensor:
    """
    :param indices: {batch..., indices_dim...}
    :param indices_dim: the dims to reduce over
    :param out_dim: see `scatter`
    :param fill_value: where there is no index; default 0
    :return: [batch..., out_dim...], int32: how often each index is there
    """
    ones = cast(compare(indices, "==", indices), "int32")
    return scatter(
        ones, indices=indices, indices_dim=indices_dim, out_dim=out_dim, fill_value=fill_value, use_mask=True
    )


def scatter_mean(
    source: Tensor,
    *,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    fill_value: Any = None,
    out_dim: Dim | Sequence[Dim] | None = None,
) -> Tensor:
    """:return: mean of the values with the same index; `fill_value`, default 0, where there is none. See `scatter`"""
    options = {"indices": indices, "indices_dim": indices_dim, "out_dim": out_dim}
    total = scatter(source, use_mask=True, **options)  # type: ignore[arg-type]
    count = scatter_count(**options)  # type: ignore[arg-type]
    mean = combine_bc(total, "/", cast(maximum(count, 1), total.dtype), dim_order=total.dims)
    return _filled(mean, count, 0 if fill_value is None else fill_value)


def scatter_logsumexp(
    source: Tensor,
    *,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    fill_value: Any = None,
    out_dim: Dim | Sequence[Dim] | None = None,
) -> Tensor:
    """
    :return: log of the sum of exp of the values with the same index, without overflow; `fill_value`, default -inf,
        where there is none. See `scatter`
    """
    options = {"indices": indices, "indices_dim": indices_dim, "out_dim": _out_dim(indices, out_dim)}
    backend = get_backend_of(source, indices)
    source = source.copy_masked(0, dims=_masked_dims(source, indices_dim))
    highest = scatter(source, mode="max", fill_value=0.0, use_mask=True, **options)  # type: ignore[arg-type]
    highest = where(backend.is_finite(highest), highest, 0.0)
    shift = _gathered(highest, indices, options["out_dim"])  # type: ignore[arg-type]
    total = scatter(exp(combine_bc(source, "-", shift, dim_order=source.dims)), use_mask=True, **options)  # type: ignore[arg-type]
    is_empty = compare(total, "==", 0.0)
    result = combine_bc(log(where(is_empty, 1.0, total)), "+", highest, dim_order=total.dims)
    result = where(is_empty, -float("inf"), result)
    if fill_value is None:
        return result
    return _filled(result, scatter_count(**options), fill_value)  # type: ignore[arg-type]


def scatter_logmeanexp(
    source: Tensor,
    *,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    fill_value: Any = None,
    out_dim: Dim | Sequence[Dim] | None = None,
) -> Tensor:
    """
    :return: log of the mean of exp of the values with the same index, without overflow; `fill_value`, default -inf,
        where there is none. See `scatter`
    """
    options = {"indices": indices, "indices_dim": indices_dim, "out_dim": out_dim}
    total = scatter_logsumexp(source, **options)  # type: ignore[arg-type]
    count = scatter_count(**options)  # type: ignore[arg-type]
    mean = combine_bc(total, "-", log(cast(maximum(count, 1), total.dtype)), dim_order=total.dims)
    return _filled(mean, count, -float("inf") if fill_value is None else fill_value)


def _out_dim(indices: Tensor, out_dim: Dim | Sequence[Dim] | None) -> Dim | Sequence[Dim]:
    if out_dim is not None:
        return out_dim
    if indices.sparse_dim is None:
        raise fail(f"scatter: the out dim is missing: {indices}.", "Give it, or indices with a sparse dim.")
    return indices.sparse_dim


def _masked_dims(source: Tensor, indices_dim: Dim | Sequence[Dim]) -> list[Dim]:
    return [dim for dim in as_dims(indices_dim) if dim in source.dims and dim.need_masking()]


def _filled(x: Tensor, count: Tensor, fill_value: Any) -> Tensor:
    """:return: x, with `fill_value` where the count is 0"""
    return where(compare(count, ">", 0), x, fill_value, allow_broadcast_all_sources=True)


def _gathered(x: Tensor, indices: Tensor, out_dim: Dim | Sequence[Dim]) -> Tensor:
    """:return: for each index, what was scattered there"""
    x, axis = merge_dims(x, dims=as_dims(out_dim))
    return gather(x, indices=indices, axis=axis, clip_to_valid=True)
