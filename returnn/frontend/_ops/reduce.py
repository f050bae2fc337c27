"""Reductions: a dim as one value. Frames beyond the end of their sequences do not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._ops.axes import AxesOps
from returnn.frontend._ops.creation import CreationOps
from returnn.frontend._ops.elementwise import ElementwiseOps
from returnn.frontend._ops.layout import masked_raw, with_at_least
from returnn.frontend._ops.operands import (
    as_dims,
    expand_for_mask,
    fail,
    is_int,
    require_dims,
    require_float,
    require_numbers,
)
from returnn.frontend.dtype import get_default_float_dtype
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError

REDUCE_MODES = ("sum", "max", "min", "mean", "logsumexp", "any", "all", "argmin", "argmax")
_INDEX_MODES = ("argmin", "argmax")
_BOOL_MODES = ("any", "all")
_DISTRIBUTED_MODES = ("sum", "max", "min", "logsumexp", "any", "all")


class ReduceOps(ElementwiseOps, CreationOps, AxesOps):
    """Reductions and cumulative sums."""

    @classmethod
    def reduce(cls, source: Tensor, *, mode: str, axis: Dim | Sequence[Dim], use_mask: bool = True) -> Tensor:
        """See `returnn.frontend.reduce`."""
        if mode not in REDUCE_MODES:
            raise fail(f"reduce: there is no mode {mode!r}.", f"Possible: {', '.join(REDUCE_MODES)}.")
        dims = as_dims(axis)
        axes = require_dims(f"reduce_{mode}: axis", source, dims)
        _check_dtype(source, mode)
        if mode in _INDEX_MODES and len(dims) != 1:
            shown = ", ".join(map(str, dims))
            raise fail(f"reduce_{mode}: an index is into one dim, got {shown}.", "Use rf.merge_dims first.")
        needs_mask = use_mask and any([dim.need_masking() for dim in dims])  # noqa: C419 - a list is faster here
        if needs_mask:
            source = expand_for_mask(cls.expand_dim, source, dims)
            axes = [source.get_axis_from_description(dim) for dim in dims]
        out = without_axes(source, axes)
        if mode in _INDEX_MODES:
            out.dtype, out.sparse_dim = "int32", dims[0]
        elif mode == "mean" and is_int(source):
            out.dtype, out.sparse_dim = get_default_float_dtype(), None
        if not cls.computes:
            return out
        if mode == "mean":
            source = cls.cast(source, out.dtype)
            if needs_mask:
                return cls._masked_mean(source, dims, axes, out)
        neutral = _neutral_value(mode, source.dtype)
        raw = masked_raw(source, dims, neutral) if needs_mask else source._raw_tensor
        if mode in _INDEX_MODES:  # there is something in memory, so that there is an index
            raw = with_at_least(source, raw, axes[0], 1, neutral, size=dims[0].get_dim_value())
        out._raw_tensor = cls.reduce_raw(raw, mode, axes)
        return out

    @classmethod
    def _masked_mean(cls, source: Tensor, dims: Sequence[Dim], axes: Sequence[int], out: Tensor) -> Tensor:
        total = out.copy_template()
        total._raw_tensor = cls.reduce_raw(masked_raw(source, dims, 0), "sum", axes)
        return cls.combine(total, "truediv", cls._num_frames(dims, source.dtype), allow_broadcast_all_sources=True)

    @classmethod
    def _num_frames(cls, dims: Sequence[Dim], dtype: str) -> Tensor:
        """:return: over how many frames of `dims` a sequence reduces, as `dtype`; at least 1"""
        count: Any = None
        for dim in dims:
            lengths = cls.as_tensor(dim.get_size_tensor())
            if any(d in dims for d in lengths.dims):  # the lengths differ along another reduced dim
                count = cls.reduce(cls.full(dims, 1, dtype="int32"), mode="sum", axis=dims)
                break
            count = lengths if count is None else cls.combine(count, "mul", lengths, allow_broadcast_all_sources=True)
        return cls.cast(cls.combine(count, "maximum", 1), dtype)

    @classmethod
    def reduce_distributed(cls, source: Tensor, *, mode: str) -> Tensor:
        """
        :param source: what this process has, in the same shape as the others
        :param mode: "sum", "max", "min", "logsumexp", "any", "all"
        :return: reduction over all processes of a distributed training; source if there is just one
        """
        if mode not in _DISTRIBUTED_MODES:
            raise fail(
                f"reduce over all processes: there is no mode {mode!r}.",
                f"Possible: {', '.join(_DISTRIBUTED_MODES)}. For a mean, divide the sum by the number of frames.",
            )
        out = source.copy_template()
        if cls.computes:
            raw = cls.of_all_processes_raw(source._raw_tensor)
            out._raw_tensor = source._raw_tensor if raw is None else cls.reduce_raw(raw, mode, [0])
        return out

    @classmethod
    def cumsum(cls, source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """:return: for each frame, the sum over all frames up to it"""
        require_dims("cumsum", source, [spatial_dim])
        require_numbers("cumsum", source)
        out = source.copy_template()
        out.sparse_dim = None
        if cls.computes:
            out._raw_tensor = cls.cumsum_raw(source._raw_tensor, source.get_axis_from_description(spatial_dim))
        return out


def without_axes(source: Tensor, axes: Sequence[int]) -> Tensor:
    """:return: template of source without these axes"""
    keep = [i for i in range(len(source.dims)) if i not in axes]
    return source._with_axes([source.dims[i] for i in keep], keep)


def _check_dtype(source: Tensor, mode: str) -> None:
    if mode in _BOOL_MODES and source.dtype != "bool":
        raise DtypeError(f"reduce_{mode}: {source} should be bool. Compare with something first, such as `x > 0`.")
    if mode not in _BOOL_MODES:
        require_numbers(f"reduce_{mode}", source, otherwise=", or rf.reduce_any or rf.reduce_all")
    if mode == "logsumexp":
        require_float("reduce_logsumexp", source)


def _neutral_value(mode: str, dtype: str) -> Any:
    """:return: the value which does not change a reduction"""
    if mode in _BOOL_MODES:
        return mode == "all"
    if mode in ("sum", "mean"):
        return 0
    is_low = mode in ("max", "argmax", "logsumexp")
    if dtype.startswith(("float", "bfloat")):
        return -numpy.inf if is_low else numpy.inf
    info = numpy.iinfo(dtype)
    return info.min if is_low else info.max
