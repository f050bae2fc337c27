"""Every n-th frame of a part of a dim, and the frames in reverse order."""

from __future__ import annotations

from typing import Any

from returnn.frontend._ops.operands import OperandOps, require_dims
from returnn.tensor import Dim, Tensor


class SliceOps(OperandOps):
    """Operations on frames in memory. What becomes of the lengths of sequences is up to those who call them."""

    @classmethod
    def slice(
        cls,
        source: Tensor,
        *,
        axis: Dim,
        start: Any = None,
        end: Any = None,
        step: Any = None,
        size: Any = None,
        out_dim: Dim,
    ) -> Tensor:
        """:return: the frames `start`, `start + step`, ... before `end` (a Dim: its size) of the axis in memory"""
        require_dims("slice", source, [axis])
        number = source.get_axis_from_description(axis)
        out = source.copy_template_replace_dim_tag(number, out_dim)
        if cls.computes:
            raw: Any = source._raw_tensor
            end = end.get_dim_value() if isinstance(end, Dim) else end
            out._raw_tensor = raw[(*[slice(None)] * number, slice(start, end, step))]
        return out

    @classmethod
    def flip_no_mask(cls, source: Tensor, *, axis: Dim) -> Tensor:
        """:return: source with the frames in memory in reverse order, also those beyond the ends of the sequences"""
        require_dims("flip_no_mask", source, [axis])
        out = source.copy_template()
        if cls.computes:
            out._raw_tensor = cls.flip_raw(source._raw_tensor, source.get_axis_from_description(axis))
        return out
