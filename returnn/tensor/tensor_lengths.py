"""Lengths of the sequences in a tensor, and masks over their frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from returnn.tensor._frontend import operations
from returnn.tensor.dim import Dim
from returnn.tensor.tensor_layout import TensorLayout
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorLengths(TensorLayout):
    """The floor of `Tensor` that knows lengths. Raw tensors of lengths have the shape (B,)."""

    def get_sequence_lengths(self) -> Any:
        """
        :return: raw lengths of the time axis, in frames: (B,)
        :raises DimError: if there is no time axis
        """
        return self.get_dynamic_size(self.get_axis_from_description("T"))

    def get_dynamic_size(self, axis: int) -> Any:
        """:return: raw lengths of the axis, counted with the batch axis; for a static axis, its size in each entry"""
        dim = self.dims[axis]
        if dim.size is None:
            return self.lengths_of_axis(axis).raw_tensor
        rf = operations()
        return rf.full(dims=[self.get_batch_dim_tag()], fill_value=dim.size, dtype=self.size_dtype).raw_tensor

    def lengths_of_axis(self, axis: int) -> Any:
        """:return: lengths of a dynamic axis, counted with the batch axis"""
        return self.dims[axis].get_size_tensor()

    def get_dyn_size_tags(self) -> list[Dim]:
        """:return: the dims with sequences of different lengths"""
        return [self.dims[i] for i in self.get_dynamic_axes()]

    def copy_masked(
        self,
        mask_value: Any,
        *,
        dims: Sequence[Dim | int] | None = None,
        allow_int: bool | type[NotSpecified] = NotSpecified,
    ) -> Self:
        """
        :param mask_value: number or tensor that goes to the frames beyond the end of their sequence
        :param dims: only these dims, or axes by number; default: all that need it
        :param allow_int: whether `dims` may have numbers
        :return: with the same dims, and those which the lengths depend on
        """
        rf = operations()
        wanted = self.dims if dims is None else [self.dims[i] for i in self.get_axes_from_description(dims, allow_int)]
        masks = [dim.get_mask(dim_order=self.dims) for dim in wanted if dim.need_masking()]
        if not masks:
            return self
        mask = reduce(lambda a, b: rf.combine_bc(a, "logical_and", b, dim_order=self.dims), masks)
        return rf.where(mask, self, mask_value, allow_broadcast_all_sources=True)

    def get_placeholder_flattened(self, keepdims: bool = False) -> Any:
        """
        :param keepdims: keep the axes that were merged, with size 1
        :return: raw tensor of the valid entries over batch and all dynamic axes: (number of entries, ...). They are
            sequence by sequence, whatever the order of the axes is
        """
        rf = operations()
        merge = [d for i, d in enumerate(self.dims) if d.is_batch_dim() or self.is_axis_dynamic(i)]
        merge.sort(key=lambda dim: not dim.is_batch_dim())
        if not merge:
            return self.raw_tensor
        masks = [d.get_mask(dim_order=self.dims) for d in merge if d.need_masking()]
        if masks:
            mask = masks[0]
            for other in masks[1:]:
                mask = rf.combine_bc(mask, "logical_and", other)
            mask = rf.expand_to(mask, merge)
            flat, merged = rf.masked_select(self, mask=mask, dims=merge)
        else:
            flat, merged = rf.merge_dims(self, dims=merge)
        raw = flat.copy_move_axis(flat.dims.index(merged), 0).raw_tensor
        for _ in range(len(merge) - 1 if keepdims else 0):
            raw = flat._raw_backend.expand_dims_raw(raw, 1)
        return raw

    def num_elements(self) -> Any:
        """:return: how many values there are, not counting frames beyond the ends: a number or a scalar tensor"""
        return operations().num_elements_of_shape(self.dims)
