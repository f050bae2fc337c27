"""
Merging dims and splitting them again, where the lengths of other dims are over these dims.

In `[B, H, T]`, the lengths of T are over B. After B and H were merged, they have to be over the merged dim. So T
becomes another dim. Where the merged dim is split into B and H again, it is T again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_axes import LayerAxes
from returnn.tf.layers.core.layer_dims import InPlaceOf, originals_of
from returnn.util.not_specified import NotSpecified


def merge_dims(
    layer: LayerAxes, source: Tensor, dims: Sequence[Dim], *, out_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """
    :param layer: to which new dims belong
    :param source: {..., dims...}
    :param dims: the first one is the outermost
    :param out_dim: the new dim
    :return: {..., out_dim}, out_dim; see `rf.merge_dims`
    """
    out, new_dim = rf.merge_dims(source, dims=dims, out_dim=out_dim)
    if out.time_dim_axis == out.batch_dim_axis:
        out.time_dim_axis = NotSpecified
    if out.feature_dim_axis is not None and out.feature_dim_axis == out.batch_dim_axis:
        out = out.copy_with_roles(feature_dim=None)
    return with_lengths(layer, out, dims, lambda x: rf.merge_dims(x, dims=dims, out_dim=new_dim)[0]), new_dim


def split_dims(layer: LayerAxes, source: Tensor, axis: Dim, dims: Sequence[Dim]) -> Tensor:
    """
    :param layer: to which new dims belong
    :param source: {..., axis}
    :param axis: to split
    :param dims: the new dims, the first one is the outermost
    :return: {..., dims...}; see `rf.split_dims`
    """

    def split(x: Tensor) -> Tensor:
        return rf.split_dims(x, axis=axis, dims=dims, pad_to_multiples=False)

    return with_lengths(layer, split(source), [axis], split)


def with_lengths(layer: LayerAxes, out: Tensor, old_dims: Sequence[Dim], change: Callable[[Tensor], Tensor]) -> Tensor:
    """
    :param layer: to which new dims belong
    :param out: {...}, without `old_dims`
    :param old_dims: that are not there any more
    :param change: function from a tensor with all `old_dims` to one with those that came instead
    :return: out, where no dim has lengths over `old_dims`
    """
    for dim in out.dims:
        lengths = dim.dyn_size_ext if dim.need_masking() else None
        if lengths is None or dim.is_batch_dim() or not any(old in lengths.dims for old in old_dims):
            continue
        original = _original_of(layer, dim, out)
        if original is not None:
            out, _ = rf.replace_dim(out, in_dim=dim, out_dim=original)
            continue
        lengths = rf.expand_to(lengths, old_dims)
        new_dim = layer.new_dim(f"{dim.name}:frames", kind=dim.kind)
        if new_dim.dyn_size is None:
            new_dim.dyn_size_ext = change(lengths)
            new_dim.bounded_by = dim if dim.can_be_longer_in_memory() else None
        layer.network.dims_of_layers.note(new_dim, InPlaceOf(dim))
        out, _ = rf.replace_dim(out, in_dim=dim, out_dim=new_dim)
    return out


def _original_of(layer: LayerAxes, dim: Dim, out: Tensor) -> Dim | None:
    """:return: the dim which this one is in place of, if `out` has the dims that the lengths of that one are over"""
    for original in originals_of(layer.network.dims_of_layers, dim):
        if original not in out.dims and all(other in out.dims for other in original.get_size_tensor().dims):
            return original
    return None
