"""
Parameters whose axes consist of several parts: the gates of an LSTM, the sources that were joined.

When a network grows during pretraining, each part grows: the old values of the second gate are those of the second
gate of the larger parameter. So for each axis the sizes of its parts are noted (`axes_split_info`), such as
`[[n_in, n_out], [n_out, n_out, n_out, n_out]]`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy

from returnn.tensor import Dim
from returnn.tensor.dim_math import Atom, Term

AxesSplitInfo = Sequence[Sequence[int] | None]
_ATTRIBUTE = "_returnn_axes_split_info"


def parts_of_dim(dim: Dim) -> list[int] | None:
    """:return: sizes of the parts of a static dim that was computed as a sum, or as a multiple, of others"""
    if dim.dimension is None or not dim.is_derived():
        return None
    parts: list[int] = []
    for term in dim.expression.terms:
        size = _size_of_term(term)
        if size is None:
            return None
        parts += [size] * term.coefficient if term.factors else [term.coefficient]
    return parts if len(parts) > 1 and sum(parts) == dim.dimension else None


def _size_of_term(term: Term) -> int | None:
    """:return: size of its factors; None if it is no part of a dim"""
    sizes = [factor.dim.dimension if isinstance(factor, Atom) else None for factor in term.factors]
    return None if None in sizes or term.coefficient < 0 else math.prod(sizes)


def check_param_axes_split_info(param_shape: Sequence[int | None], axes_split_info: AxesSplitInfo) -> None:
    """
    :param param_shape: of the parameter
    :param axes_split_info: sizes of the parts of each axis; None: it has none
    """
    assert len(param_shape) == len(axes_split_info), f"{param_shape}: {axes_split_info} is about other axes"
    for size, parts in zip(param_shape, axes_split_info, strict=True):
        assert parts is None or sum(parts) == size, f"{param_shape}: the parts {parts} are not {size} together"


def set_param_axes_split_info(param: Any, axes_split_info: AxesSplitInfo) -> None:
    """
    :param param: variable
    :param axes_split_info: sizes of the parts of each axis; None: it has none
    """
    check_param_axes_split_info(param.shape.as_list(), axes_split_info)
    setattr(param, _ATTRIBUTE, [None if parts is None else list(parts) for parts in axes_split_info])


def get_param_axes_split_info(param: Any) -> list[list[int] | None] | None:
    """:return: sizes of the parts of each axis; None if nothing is known"""
    return getattr(param, _ATTRIBUTE, None)


def transform_param_axes_split_info_to_new_shape(
    axes_split_info: AxesSplitInfo, new_shape: Sequence[int], debug_name: str = "<unknown>"
) -> list[list[int]]:
    """
    :param axes_split_info: of a parameter
    :param new_shape: of a parameter of the same kind, larger or smaller
    :param debug_name: of the parameter, for messages
    :return: sizes of the parts of that one. Parts of the same size change alike; in an axis of different parts, those
        change whose size has changed elsewhere, and what remains is the change of the largest other part
    """
    assert len(axes_split_info) == len(new_shape), f"{debug_name}: {axes_split_info} is about other axes: {new_shape}"
    parts = [[size] if part is None else list(part) for part, size in zip(axes_split_info, new_shape, strict=True)]
    changed: dict[int, int] = {}
    for old, size in zip(parts, new_shape, strict=True):
        if len(set(old)) == 1 and size % len(old) == 0:
            changed[old[0]] = size // len(old)
    return [_changed_parts(old, size, changed) for old, size in zip(parts, new_shape, strict=True)]


def _changed_parts(old: list[int], size: int, changed: dict[int, int]) -> list[int]:
    if sum(old) == size:
        return old
    if len(set(old)) == 1 and size % len(old) == 0:
        return [size // len(old)] * len(old)
    new = [changed.get(part, part) for part in old]
    rest = size - sum(new)
    if rest:
        free = [i for i, part in enumerate(old) if part not in changed] or list(range(len(old)))
        largest = max(free, key=lambda i: new[i])
        new[largest] = max(new[largest] + rest, 0)
    return new


def copy_with_new_split_axes(
    old_axis_splits: Sequence[Sequence[int]],
    new_axis_splits: Sequence[Sequence[int]],
    old_values: numpy.ndarray,
    new_values: numpy.ndarray | None = None,
) -> numpy.ndarray:
    """
    :param old_axis_splits: sizes of the parts of each axis of the old values
    :param new_axis_splits: the same for the new values, as many parts
    :param old_values: values
    :param new_values: what is there before; default: zeros
    :return: each part has what fits of the old part; what is beyond that is as before
    """
    shape = [sum(parts) for parts in new_axis_splits]
    new_values = numpy.zeros(shape, old_values.dtype) if new_values is None else new_values.copy()
    per_axis = [_common_ranges(old, new) for old, new in zip(old_axis_splits, new_axis_splits, strict=True)]
    for ranges in itertools.product(*per_axis):
        old_index, new_index = (tuple(pair[i] for pair in ranges) for i in (0, 1))
        new_values[new_index] = old_values[old_index]
    return new_values


def _common_ranges(old: Sequence[int], new: Sequence[int]) -> list[tuple[slice, slice]]:
    """:return: for each part what both have, as range in the old and in the new axis"""
    assert len(old) == len(new), f"different parts: {old}, {new}"
    old_starts, new_starts = ([sum(sizes[:i]) for i in range(len(sizes))] for sizes in (old, new))
    sizes = [min(a, b) for a, b in zip(old, new, strict=True)]
    starts = zip(old_starts, new_starts, sizes, strict=True)
    return [(slice(a, a + size), slice(b, b + size)) for a, b, size in starts]
