"""Several dims as one, and one as several: other names for the same values in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.axes import AxesOps, axes_of, check_same_size, other_axes, replaced_axes
from returnn.frontend._ops.layout import product, sizes_for_reshape
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._out_dims import merged_in_memory
from returnn.tensor import Dim, Tensor


class MergeSplitOps(AxesOps):
    """Operations on axes in memory. What becomes of the lengths of sequences is up to those who call them."""

    @classmethod
    def merge_dims(cls, source: Tensor, *, dims: Sequence[Dim], out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
        """
        :param source: {..., dims...}
        :param dims: the first one is the outermost
        :param out_dim: for all of them; default: their product, of all frames in memory if padded ones are in between
        :return: {..., out_dim}; out_dim
        """
        require_dims("merge_dims", source, dims)
        out_dim = merged_in_memory(dims) if out_dim is None else out_dim
        check_same_size("merge_dims", source, dims, [out_dim])
        return cls._replaced(source, dims, [out_dim]), out_dim

    @classmethod
    def split_dims(
        cls,
        source: Tensor,
        *,
        axis: Dim,
        dims: Sequence[Dim],
        pad_to_multiples: bool | None = None,
        pad_value: Any = None,
    ) -> Tensor:
        """
        :param source: {..., axis}
        :param axis: to split
        :param dims: the new dims, the first one outermost
        :param pad_to_multiples: whether `axis` may be shorter than the product of the dims, and is padded first
        :param pad_value: with this number; default 0
        """
        require_dims("split_dims", source, [axis])
        if not pad_to_multiples:
            check_same_size("split_dims", source, [axis], dims)
        elif cls.computes:
            missing = product([dim.get_dim_value() for dim in dims]) - axis.get_dim_value()
            amounts: list[tuple[Any, Any]] = [(0, 0)] * len(source.dims)
            amounts[source.get_axis_from_description(axis)] = (0, missing)
            padded = source.copy_template()
            padded._raw_tensor = cls.pad_raw(source._raw_tensor, amounts, 0 if pad_value is None else pad_value)
            source = padded
        return cls._replaced(source, [axis], dims)

    @classmethod
    def reshape(cls, source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Tensor:
        """:return: source with `out_dims` for `in_dims`, the values in the order of `in_dims`"""
        if not in_dims:
            raise fail(f"reshape: {source}: in_dims is empty.", "To add a dim, use rf.expand_dim.")
        require_dims("reshape", source, in_dims)
        check_same_size("reshape", source, in_dims, out_dims)
        return cls._replaced(source, in_dims, out_dims)

    @classmethod
    def _replaced(cls, source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim]) -> Tensor:
        axes = axes_of(source, in_dims)
        out = replaced_axes(source, axes, out_dims)
        if cls.computes:
            before, behind = other_axes(source, axes)
            perm = [*before, *axes, *behind]
            raw = source._raw_tensor if perm == sorted(perm) else cls.transpose_raw(source._raw_tensor, perm)
            out._raw_tensor = cls.reshape_raw(raw, sizes_for_reshape(out.dims))
        return out
