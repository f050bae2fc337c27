"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._backend import get_backend_of
from returnn.frontend._num_elements import num_elements_of_shape
from returnn.frontend._template_backend.core import as_dims
from returnn.frontend._template_backend.rules import expand_for_mask, require_dims
from returnn.frontend.array_ import cast
from returnn.frontend.math_ import combine_bc, maximum, rsqrt, squared_difference
from returnn.frontend.reduce import reduce_mean, reduce_sum
from returnn.tensor import Dim, Tensor


def moments(
    x: Tensor,
    axis: Dim | Sequence[Dim],
    *,
    use_mask: bool = True,
    correction: int | float | Tensor = 0,
    distributed: bool = False,
) -> tuple[Tensor, Tensor]:
    """
    :param x: {..., axis}
    :param axis: one dim or several
    :param use_mask: leave out frames beyond the end of their sequence
    :param correction: the sum of squared differences is divided by the number of frames minus this; 1 for the unbiased
        variance
    :param distributed: over all processes of a distributed training
    :return: {...}: mean; variance
    """
    dims = as_dims(axis)
    require_dims("moments", x, dims)
    if not distributed and isinstance(correction, (int, float)) and correction == 0:
        mean = reduce_mean(x, axis=dims, use_mask=use_mask)
        return mean, reduce_mean(_squared_difference(x, mean), axis=dims, use_mask=use_mask)
    count = _count(x, dims, use_mask, distributed)
    mean = _divided(reduce_sum(x, axis=dims, use_mask=use_mask, distributed=distributed), count)
    squares = reduce_sum(_squared_difference(x, mean), axis=dims, use_mask=use_mask, distributed=distributed)
    return mean, _divided(squares, maximum(combine_bc(count, "-", correction), 1.0))


def normalize(a: Tensor, *, axis: Dim | Sequence[Dim], epsilon: float = 1e-6) -> Tensor:
    """
    :param a: {..., axis}
    :param axis: one dim or several
    :param epsilon: added to the variance
    :return: the dims of a; over `axis`, the mean is 0 and the variance 1
    """
    mean, variance = moments(a, axis)
    out = combine_bc(combine_bc(a, "-", mean), "*", rsqrt(variance + epsilon))
    return out.copy_compatible_to_dims(a.dims) if out.dims != a.dims and len(out.dims) == len(a.dims) else out


def _squared_difference(x: Tensor, mean: Tensor) -> Tensor:
    if any(dim not in x.dims for dim in mean.dims):  # lengths differ over a dim which x does not have
        x = expand_for_mask(get_backend_of(x), x, [d for d in x.dims if d not in mean.dims])
    return squared_difference(x, mean)


def _count(x: Tensor, dims: Sequence[Dim], use_mask: bool, distributed: bool) -> Tensor:
    """:return: number of frames, at least 1, as dtype of x"""
    backend = get_backend_of(x)
    number = num_elements_of_shape(dims, use_mask=use_mask)
    if not isinstance(number, Tensor):
        number = backend.convert_to_tensor(number, dims=(), dtype="int32")
    count = maximum(cast(number, x.dtype), 1.0)
    return backend.reduce_distributed(count, mode="sum") if distributed else count


def _divided(total: Tensor, count: Tensor) -> Tensor:
    return combine_bc(total, "/", count)


__all__ = ["moments", "normalize"]
