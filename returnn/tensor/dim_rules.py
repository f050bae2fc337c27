"""
Dims whose lengths follow from another dim, but not by the arithmetic of `returnn.tensor.dim_math`.

The same rule on the same dim gives the same object. Its lengths are computed when they are asked for, like those of
`time // 2`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from returnn.tensor._frontend import operations
from returnn.tensor.dim import Dim
from returnn.tensor.dim_lengths import AnyTensor, LengthRule

_dims_by_rule: WeakValueDictionary[Any, Dim] = WeakValueDictionary()  # (rule, key of the source) -> Dim


def padded_dim(dim: Dim) -> Dim:
    """
    :return: the dim of all frames in memory, also of those beyond the ends of the sequences: as long as the longest
        sequence, or as the axis where that is longer. It is `dim` itself if that has no such frames.
    """
    if not dim.need_masking():
        return dim
    if dim.capacity is not None:
        return type(dim)(dim.capacity, name=f"{dim.name}:padded", kind=dim.kind, auto_generated=True)
    return _get_dim_by_rule(("padded",), dim, lambda _: dim.get_dim_value_tensor())


def at_most(dim: Dim, limit: int) -> Dim:
    """:return: the dim of the first `limit` frames: min(lengths, limit)"""
    if dim.size is not None:
        return _make_number_dim(dim, min(dim.size, limit))
    return _get_dim_by_rule(("at most", limit), dim, partial(_minimum, limit=limit))


def at_least(dim: Dim, limit: int) -> Dim:
    """:return: the dim with max(lengths, limit)"""
    if dim.size is not None:
        return _make_number_dim(dim, max(dim.size, limit))
    return _get_dim_by_rule(("at least", limit), dim, partial(_maximum, limit=limit))


def twin(dim: Dim) -> Dim:
    """:return: another dim with the same lengths, as for the frames that the frames of `dim` attend to"""
    if dim.size is None:
        return _get_dim_by_rule(("twin",), dim, _same)
    key = (("twin",), dim.key, dim.kind)
    known = _dims_by_rule.get(key)
    if known is None:
        known = _dims_by_rule[key] = type(dim)(dim.size, name=f"{dim.name}:twin", kind=dim.kind)
    return known


def _same(lengths: AnyTensor) -> AnyTensor:
    return lengths


def _minimum(lengths: AnyTensor, limit: int) -> AnyTensor:
    return operations().minimum(lengths, limit)


def _maximum(lengths: AnyTensor, limit: int) -> AnyTensor:
    return operations().maximum(lengths, limit)


def _make_number_dim(dim: Dim, size: int) -> Dim:
    if size == dim.size:
        return dim
    return type(dim)(size, name=str(size), kind=dim.kind, auto_generated=True)


def _get_dim_by_rule(rule: tuple[Any, ...], source: Dim, compute: Callable[[AnyTensor], AnyTensor]) -> Dim:
    key = (rule, source.key, source.kind)
    known = _dims_by_rule.get(key)
    if known is not None and known.same_as is None:
        return known
    name = ":".join([source.name or source.short_repr(), *(str(part) for part in rule)])
    dim = type(source)(None, name=name, kind=source.kind, derived_from_tag=source)
    dim.length_rule = LengthRule(source.get_same_base(), compute, rule)
    _dims_by_rule[key] = dim
    return dim
