"""Bringing operands into a layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from returnn.tensor import Dim, Tensor


def raw_for_broadcast(x: Tensor, dims: Sequence[Dim]) -> Any:
    """
    :param x: its dims are among `dims`
    :return: raw tensor that broadcasts to an array with these dims. Axes of size 1 in front are left out, which every
        array library adds itself; so no operation is needed if the dims of x are the last ones, in order.
    """
    own = x._dims
    if own is dims or not own or own == tuple(dims[len(dims) - len(own) :]):
        return x._raw_tensor
    backend = x._raw_backend
    order = x.get_out_permutation_to_dims(dims)
    raw = x._raw_tensor
    perm = [i for i in order if i >= 0]
    if perm != sorted(perm):
        raw = backend.transpose_raw(raw, perm)
    first = next(i for i, axis in enumerate(order) if axis >= 0) if perm else len(order)
    for axis, i in enumerate(order[first:]):
        if i < 0:
            raw = backend.expand_dims_raw(raw, axis)
    return raw


def raw_in_order(x: Tensor, dims: Sequence[Dim]) -> Any:
    """:return: raw tensor with its axes in the order of `dims`, which are all dims of x"""
    if x.dims == tuple(dims):
        return x._raw_tensor
    perm = x.get_out_permutation_to_dims(dims)
    return x._raw_tensor if perm == sorted(perm) else x._raw_backend.transpose_raw(x._raw_tensor, perm)


def mask_over(x: Tensor, dims: Sequence[Dim]) -> Tensor | None:
    """:return: bool, True where all of `dims` are within their sequences; None if no mask is needed"""
    mask: Tensor | None = None
    for dim in dims:
        if dim.need_masking():
            other = dim.get_mask(dim_order=x.dims)
            mask = (
                other
                if mask is None
                else x._raw_backend.combine(
                    mask, "logical_and", other, allow_broadcast_all_sources=True, dim_order=x.dims
                )
            )
    return mask


def masked_raw(x: Tensor, dims: Sequence[Dim], value: Any) -> Any:
    """
    :param x: tensor, which has all dims of the lengths
    :param dims: the frames of these dims which are beyond the end of their sequences ...
    :param value: ... are replaced by this number
    :return: raw tensor, in the layout of x
    """
    mask = mask_over(x, dims)
    if mask is None:
        return x._raw_tensor
    backend = x._raw_backend
    return backend.where_raw(raw_for_broadcast(mask, x._dims), x._raw_tensor, backend.number_raw(value, x.dtype, x))


def with_at_least(x: Tensor, raw: Any, axis: int, number: int, value: Any, *, size: Any) -> Any:
    """
    :param x: tensor, of whose backend
    :param raw: the raw tensor is
    :param axis: of the raw tensor
    :param number: at least so many entries come out along the axis
    :param value: of the new ones
    :param size: how many there are
    :return: the same raw tensor, if there are enough
    """
    backend = x._raw_backend
    if isinstance(size, int):
        missing: Any = max(number - size, 0)
        if not missing:
            return raw
    else:
        missing = backend.combine_raw(number - size, "maximum", 0)
    amounts: list[tuple[Any, Any]] = [(0, 0)] * backend.get_ndim_raw(raw)
    amounts[axis] = (0, missing)
    return backend.pad_raw(raw, amounts, value)


def product(sizes: Sequence[Any]) -> Any:
    """:return: product of sizes, each a number or a raw scalar"""
    number, raw = 1, None
    for size in sizes:
        if isinstance(size, int):
            number *= size
        else:
            raw = size if raw is None else raw * size
    if raw is None:
        return number
    return raw if number == 1 else raw * number


def sizes_for_reshape(dims: Sequence[Dim]) -> list[Any]:
    """:return: sizes, where one that is not known before is left to the library to find"""
    is_known = [dim.size is not None or dim.capacity is not None for dim in dims]
    return one_size_left_out(is_known, [dim.get_dim_value for dim in dims])


def one_size_left_out(is_known: Sequence[bool], sizes: Sequence[Callable[[], Any]]) -> list[Any]:
    """
    :param is_known: for each axis, whether its size is a number
    :param sizes: for each axis, how to get it
    :return: sizes. If one alone is not known, it is left to the library to find: no other one is 0 then, so it can.
    """
    if is_known.count(False) == 1:
        result = [size() if known else -1 for size, known in zip(sizes, is_known, strict=True)]
        if 0 not in result:
            return result
    return [size() for size in sizes]


def rows_of(x: Tensor, batch: Sequence[Dim], rest: Sequence[Dim], *, frames: Sequence[Dim] = ()) -> Any:
    """:return: raw tensor (frames..., batch dims as one axis, rest...); the values are repeated where x lacks a dim"""
    raw = x.copy_compatible_to_dims_raw([*frames, *batch, *rest], unbroadcast=True)
    if len(batch) == 1:
        return raw
    sizes = [[dim.get_dim_value() for dim in dims] for dims in (frames, batch, rest)]
    return x._raw_backend.reshape_raw(raw, [*sizes[0], product(sizes[1]), *sizes[2]])
