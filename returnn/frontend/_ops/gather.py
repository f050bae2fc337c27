"""Entries by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from returnn.frontend._ops.elementwise import ElementwiseOps
from returnn.frontend._ops.layout import raw_in_order, with_at_least
from returnn.frontend._ops.limits import zero_value
from returnn.frontend._ops.operands import common_template, fail, require_dims
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError, DtypeError


class GatherOps(ElementwiseOps):
    """Entries by their indices."""

    @classmethod
    def gather(cls, source: Tensor, *, indices: Tensor | int, axis: Dim, clip_to_valid: bool = False) -> Tensor:
        """
        One raw operation, if the dims which source and indices share come first in both.

        :param source: {batch..., axis, ...}
        :param indices: {batch..., new...}, each below the size of `axis` in memory; or a number
        :param axis: which the indices are into
        :param clip_to_valid: bring the indices into the range of the sequence; in an empty one, anything can come out
        :return: [batch..., (dims of source before axis), new..., (dims of source behind axis)]
        """
        require_dims("gather", source, [axis])
        number = source.get_axis_from_description(axis)
        if isinstance(indices, int) and not clip_to_valid:
            return cls._entry(source, indices, axis, number)
        indices = cls.as_tensor(indices)
        if not indices.dtype.startswith(("int", "uint")):
            raise DtypeError(f"gather: the indices {indices} should be integers. Use rf.cast first.")
        if clip_to_valid and cls.computes:
            indices = cls._clipped(indices, axis)
        elif clip_to_valid and axis.size is None:
            indices = common_template("gather", [indices, axis.get_size_tensor()], allow_broadcast_all_sources=True)
        axes = gather_axes(source, indices, number)
        out = _template(source, indices, axes)
        if not cls.computes:
            return out
        raw = source._raw_tensor
        if clip_to_valid and axis.size is None:  # there is something in memory for the index of an empty sequence
            raw = with_at_least(source, raw, number, 1, zero_value(source.dtype), size=axis.get_dim_value())
        perm = [*axes.batch, *axes.before, number, *axes.behind]
        if perm != sorted(perm):
            raw = cls.transpose_raw(raw, perm)
        index_dims: Sequence[Dim] = [*(source.dims[i] for i in axes.batch), *(indices.dims[i] for i in axes.new)]
        raw_indices = raw_in_order(indices, index_dims)
        try:
            out._raw_tensor = cls.gather_raw(raw, raw_indices, len(axes.batch) + len(axes.before), len(axes.batch))
        except IndexError as exc:
            raise _not_there(source, cls.raw_to_numpy(raw_indices), axis, source._raw_tensor.shape[number]) from exc
        return out

    @classmethod
    def _entry(cls, source: Tensor, index: int, axis: Dim, number: int) -> Tensor:
        if index < 0 or (axis.size is not None and index >= axis.size):
            raise fail(f"gather: {source}: there is no index {index} in {axis}.")
        out = source.copy_template_excluding_axis(number)
        if cls.computes:
            raw: Any = source._raw_tensor
            out._raw_tensor = raw[(*[slice(None)] * number, index)]
        return out

    @classmethod
    def _clipped(cls, indices: Tensor, axis: Dim) -> Tensor:
        last = cls.combine(cls.as_tensor(axis.get_size_tensor()), "sub", 1)
        indices = cls.combine(indices, "minimum", cls.cast(last, indices.dtype), allow_broadcast_all_sources=True)
        return cls.combine(indices, "maximum", 0)


class GatherAxes(NamedTuple):
    """Which axes have which part."""

    batch: list[int]  # of source, which indices have, too
    new: list[int]  # of indices alone
    before: list[int]  # other axes of source, before the one that the indices are into
    behind: list[int]  # and behind it


def gather_axes(source: Tensor, indices: Tensor, axis: int) -> GatherAxes:
    """
    :param source: tensor
    :param indices: into ...
    :param axis: ... this axis of source
    """
    batch = [i for i, dim in enumerate(source.dims) if i != axis and dim in indices.dims]
    batch_dims = [source.dims[i] for i in batch]
    new = [i for i, dim in enumerate(indices.dims) if dim not in batch_dims]
    before = [i for i in range(axis) if i not in batch]
    behind = [i for i in range(axis + 1, len(source.dims)) if i not in batch]
    return GatherAxes(batch, new, before, behind)


def _not_there(source: Tensor, indices: numpy.ndarray, axis: Dim, size: int) -> DimError:
    low, high = int(indices.min()), int(indices.max())
    return fail(
        f"gather: {source}: there is no index {low if low < 0 else high} in {axis}.",
        f"Possible are 0 to {size - 1}.",
    )


def _template(source: Tensor, indices: Tensor, axes: GatherAxes) -> Tensor:
    dims = [source.dims[i] for i in (*axes.batch, *axes.before)]
    dims += [indices.dims[i] for i in axes.new] + [source.dims[i] for i in axes.behind]
    out = source._with_axes(dims, [*axes.batch, *axes.before, *[None] * len(axes.new), *axes.behind])
    if out.feature_dim_axis is None and indices.feature_dim in out.dims and indices.feature_dim is not None:
        out = out.copy_with_roles(feature_dim=indices.feature_dim)
    return out
