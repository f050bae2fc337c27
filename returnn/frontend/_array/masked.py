"""Frames by mask, and packed sequences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from returnn.frontend._array.convert import cast, convert_to_tensor, where
from returnn.frontend._array.gather import gather, valid_only
from returnn.frontend._array.merge_split import merge_dims
from returnn.frontend._array.pad import expand_make_non_empty
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.masked import require_mask
from returnn.frontend._ops.operands import fail, require_dims, shown
from returnn.frontend._out_dims import out_dim_with_lengths
from returnn.frontend._ranges import positions
from returnn.frontend._reduce import reduce_sum
from returnn.frontend.math_ import combine_bc, neg
from returnn.tensor import Dim, Tensor


def sequence_mask(dims: Dim | Sequence[Dim], *, device: str | None = None) -> Tensor:
    """
    :param dims: with sequences of different lengths, or not
    :param device: such as "cpu"
    :return: bool, True where all `dims` are within their sequences. Its dims are those and the ones of their lengths.
    """
    dims = [dims] if isinstance(dims, Dim) else dims
    masks = [dim.get_mask(dim_order=dims, device=device) for dim in dims if dim.need_masking()]
    if not masks:
        return convert_to_tensor(True, dims=(), device=device)
    return reduce(lambda a, b: combine_bc(a, "and", b, dim_order=dims), masks)


def masked_select(
    tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """
    The frames where a mask is true.

    :param tensor: {dims..., ...}
    :param mask: {dims...}, bool. It can have other dims of the tensor, too; then each entry of those is selected from
        alone, and the out dim has lengths over them. Frames beyond the end of their sequence are left out.
    :param dims: to select from, in this order
    :param out_dim: the new dim for them
    :return: [out_dim, ...]; out_dim
    """
    require_dims("masked_select", tensor, dims)
    require_dims("masked_select", mask, dims)
    require_mask("masked_select", mask)
    mask = _valid_mask(mask)
    if mask.dims_set == set(dims):
        return get_backend_of(tensor, mask).masked_select(tensor, mask=mask, dims=dims, out_dim=out_dim)
    require_dims("masked_select", tensor, mask.dims)
    tensor, axis = merge_dims(tensor, dims=dims)
    mask, _ = merge_dims(mask, dims=dims, out_dim=axis)
    mask = _valid_mask(mask)
    lengths = reduce_sum(cast(mask, "int32"), axis=axis, use_mask=False)
    out_dim = out_dim_with_lengths(out_dim, lengths, name="masked-select", like=dims[-1])
    backend = get_backend_of(mask)
    rank = backend.cumsum(cast(mask, "int32"), spatial_dim=axis)
    place = where(mask, combine_bc(rank, "-", 1), -1)
    frames = combine_bc(place * 0, "+", positions(axis), dim_order=place.dims)
    source_position = backend.scatter(
        frames, indices=place, indices_dim=axis, mode="sum", fill_value=0, out_dim=out_dim
    )
    return gather(tensor, indices=source_position, axis=axis), out_dim


def masked_scatter(
    source: Tensor, backup: Tensor | None = None, *, mask: Tensor, dims: Sequence[Dim], in_dim: Dim
) -> Tensor:
    """
    Frames to where a mask is true, the inverse of `masked_select`.

    :param source: {in_dim, ...}
    :param backup: {dims..., ...}: what is where the mask is false; default 0
    :param mask: {dims...}, bool. It can have dims of the lengths of `in_dim`, too, see `masked_select`.
    :param dims: to scatter to, in this order
    :param in_dim: with the frames
    :return: [dims..., ...]
    """
    require_dims("masked_scatter", source, [in_dim])
    require_dims("masked_scatter", mask, dims)
    require_mask("masked_scatter", mask)
    mask = _valid_mask(mask)
    if mask.dims_set == set(dims):
        return get_backend_of(source, mask, backup).masked_scatter(source, backup, mask=mask, dims=dims, in_dim=in_dim)
    if len(dims) != 1:
        raise fail(
            f"masked_scatter: the mask {mask} has more dims than {shown(dims)}.",
            "Then there can be just one dim to scatter to. Merge the dims first (rf.merge_dims).",
        )
    rank = get_backend_of(mask).cumsum(cast(mask, "int32"), spatial_dim=dims[0])
    source, in_dim = expand_make_non_empty(source, axis=in_dim)
    found = gather(source, indices=combine_bc(rank, "-", 1), axis=in_dim, clip_to_valid=True)
    return where(mask, found, 0 if backup is None else backup, allow_broadcast_all_sources=True)


def pack_padded(
    source: Tensor, *, dims: Sequence[Dim], enforce_sorted: bool = False, out_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """
    Sequences behind each other, without padded frames.

    :param source: {dims..., ...}
    :param dims: such as batch and time
    :param enforce_sorted: the longest sequence comes first. `dims` are a dim, and one with lengths over it.
    :param out_dim: the new dim; its size is the sum of the lengths
    :return: [out_dim, ...]; out_dim
    """
    require_dims("pack_padded", source, dims)
    mask = _mask_of(dims)
    if enforce_sorted:
        if len(dims) != 2 or dims[1].get_size_tensor().dims != (dims[0],):
            raise fail(f"pack_padded: cannot sort by length: the lengths of {dims[-1]} are not over {dims[0]} alone.")
        lengths = neg(dims[1].get_size_tensor())
        _, order = get_backend_of(lengths).sort(lengths, axis=dims[0], descending=False, stable=True)
        source, mask = (gather(x, indices=order, axis=dims[0]) for x in (source, mask))
    return get_backend_of(source, mask).masked_select(source, mask=mask, dims=dims, out_dim=out_dim)


def pad_packed(source: Tensor, *, in_dim: Dim, dims: Sequence[Dim]) -> Tensor:
    """
    The inverse of `pack_padded`.

    :param source: {in_dim, ...}
    :param in_dim: with the frames of all sequences
    :param dims: such as batch and time
    :return: [dims..., ...], with 0 in padded frames
    """
    require_dims("pad_packed", source, [in_dim])
    mask = _mask_of(dims)
    return get_backend_of(source, mask).masked_scatter(source, mask=mask, dims=dims, in_dim=in_dim)


def _valid_mask(mask: Tensor) -> Tensor:
    """:return: mask which is false beyond the end of each sequence"""
    return valid_only(mask, False)


def _mask_of(dims: Sequence[Dim]) -> Tensor:
    """:return: [dims...], bool"""
    mask: Tensor = sequence_mask(dims)
    return mask.copy_compatible_to_dims(dims, unbroadcast=True)
