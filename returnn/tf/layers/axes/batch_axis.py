"""Sequences as one long batch of frames, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.batch_info import BatchInfo
from returnn.tensor.tensor_batch import set_batch_info_of_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.merged_lengths import merge_dims, split_dims, with_lengths
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class FlattenBatchLayer(_ConcatInputLayer):
    """
    The frames of all sequences as one batch, without padded frames.

    Source [B, T, ...], output [B * T, ...].
    """

    layer_class = "flatten_batch"

    def __init__(self, axis: Any = "T", batch_major: bool = True, **kwargs: Any) -> None:
        """
        :param axis: the dim of the frames, by description
        :param batch_major: sequence by sequence. Otherwise, the first frames of all sequences come first
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.batch_major = batch_major

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B * T, ...]"""
        batch, axis = source.get_batch_dim_tag(), self.dim_of(source, self.axis, option="axis")
        dims = [batch, axis] if self.batch_major else [axis, batch]
        flat = self.new_dim("flat", kind=Dim.Types.Batch)
        if axis.need_masking():
            out, _ = rf.pack_padded(source, dims=dims, out_dim=flat)
            out = with_lengths(self, out, dims, lambda x: rf.pack_padded(x, dims=dims, out_dim=flat)[0])
            info = source.batch.copy_extend_with_packed_dim_tag(axis, batch_major=self.batch_major)
        else:
            if flat.dyn_size is None:
                flat.dyn_size_ext = rf.combine_bc(batch.get_dim_value_tensor(), "*", axis.get_dim_value_tensor())
            out, _ = merge_dims(self, source, dims, out_dim=flat)
            info = source.batch.copy_extend_with_padded_or_fixed_dim_tag(axis, batch_major=self.batch_major)
        info = info.copy_of_dim(flat)
        set_batch_info_of_dim(flat, info)
        out.batch = info
        return out


class UnflattenBatchLayer(_ConcatInputLayer):
    """
    The inverse of `FlattenBatchLayer`, also of a `MergeDimsLayer` for the batch dim and another one.

    Source [B * T, ...], output [B, T, ...].
    """

    layer_class = "unflatten_batch"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, ...]"""
        flat, info = source.get_batch_dim_tag(), source.batch
        base = info.base
        if base is None or base.batch_dim_tag is None:
            raise ConfigError(f"{self.where()}: nothing was merged into the batch of the source {source}.")
        merged = next(part for part in info.virtual_dims if part not in base.virtual_dims)
        dims = [merged.dim_tag, base.batch_dim_tag]  # type: ignore[attr-defined]  # parts of a merged batch have dims
        if info.virtual_dims[0] is not merged:
            dims.reverse()
        if isinstance(merged, BatchInfo.PackedDim):
            out = rf.pad_packed(source, in_dim=flat, dims=dims)
            out = with_lengths(self, out, [flat], lambda x: rf.pad_packed(x, in_dim=flat, dims=dims))
        else:
            out = split_dims(self, source, flat, dims)
        out.batch = base
        return out


class SplitBatchTimeLayer(_ConcatInputLayer):
    """
    Splits the batch into batch and time again, after these were merged by `MergeDimsLayer`.

    Source [B * T, ...], output [B, T, ...].
    """

    layer_class = "split_batch_time"

    def __init__(self, base: LayerBase, **kwargs: Any) -> None:
        """
        :param base: layer with the batch and the time dim
        """
        super().__init__(**kwargs)
        self.base = base

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, ...]"""
        base = self.base.output
        time = self.dim_of(base, "T", option="base")
        out = split_dims(self, source, source.get_batch_dim_tag(), [base.get_batch_dim_tag(), time])
        out.batch = base.batch
        return out.copy_with_roles(time_dim=time)


def set_batch_of_two(out: Tensor, source: Tensor, dims: Sequence[Dim]) -> None:
    """
    Says what the batch axis consists of, if it is one of two dims that were merged, with padded frames.

    :param out: the result, is changed
    :param source: which had the two dims
    :param dims: the two dims, the first one is the outermost
    """
    batch_axes = [i for i, dim in enumerate(dims) if dim.is_batch_dim()]
    if len(batch_axes) != 1:
        return
    other = dims[1 - batch_axes[0]]
    info = source.batch.copy_extend_with_padded_or_fixed_dim_tag(other, batch_major=batch_axes[0] == 0)
    info = info.copy_of_dim(out.get_batch_dim_tag())
    set_batch_info_of_dim(out.get_batch_dim_tag(), info)
    out.batch = info
