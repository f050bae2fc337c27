"""Operations on dims."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._array.convert import cast
from returnn.frontend._array.pad import pad
from returnn.frontend._backend import get_backend_of
from returnn.frontend._num_elements import num_elements_of_shape
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._out_dims import out_dim_for
from returnn.frontend._ranges import range_over_dim
from returnn.frontend._use_mask import use_mask_default
from returnn.frontend.device import copy_to_device
from returnn.frontend.dtype import get_default_float_dtype
from returnn.frontend.math_ import combine_bc, maximum
from returnn.tensor import Dim, Tensor

__all__ = [
    "dim_match_priority_when_needed",
    "last_frame_position_of_dim",
    "linspace_over_dim",
    "masked_fraction_of_shape",
    "num_elements_of_shape",
    "range_over_dim",
    "range_over_dim_strided",
    "range_over_merged_dims",
    "replace_dim",
    "replace_dim_v2",
    "set_sparse_dim",
    "use_mask_default",
]


def range_over_dim_strided(
    dim: Dim, *, stride: int | Tensor, out_dim: Dim | None = None, dtype: str | None = None, device: str | None = None
) -> tuple[Tensor, Dim]:
    """
    :param dim: the dim
    :param stride: distance of the frames
    :param out_dim: the new dim; default: dim / stride, rounded up
    :param dtype: default: that of the lengths, int32
    :param device: such as "cpu"
    :return: [out_dim]: 0, stride, 2 * stride, ..., indices into `dim`; out_dim
    """
    if isinstance(stride, Tensor):
        if out_dim is None:
            raise fail(
                "range_over_dim_strided: with a tensor as stride, the out dim has to be given, with its lengths."
            )
    else:
        out_dim = out_dim_for("range_over_dim_strided", out_dim, dim.ceildiv_right(stride))
    frames = range_over_dim(out_dim, dtype=dtype, device=device)
    is_index = frames.sparse_dim is not None
    frames.sparse_dim = None
    frames = combine_bc(frames, "*", stride)
    if is_index:
        frames.sparse_dim = dim
    return frames, out_dim


def range_over_merged_dims(dims: Sequence[Dim], *, dtype: str | None = None, device: str | None = None) -> Tensor:
    """
    :param dims: the first one is the outermost
    :param dtype: default: that of the lengths, int32
    :param device: such as "cpu"
    :return: [dims...]: the index of each entry in the merged dim, as by `merge_dims` in memory
    """
    result: Tensor | None = None
    for dim in dims:
        frames = range_over_dim(dim, dtype=dtype, device=device).copy_with_roles(sparse_dim=None)
        if result is not None:
            size = dim.capacity or dim.size or _as_dtype_of(dim.get_dim_value_tensor(), frames)
            frames = combine_bc(combine_bc(result, "*", size), "+", frames)
        result = frames
    if result is None:
        raise fail("range_over_merged_dims: there are no dims.")
    return result


def linspace_over_dim(
    dim: Dim,
    start: float | Tensor = 0.0,
    end: float | Tensor = 1.0,
    *,
    dtype: str | None = None,
    device: str | None = None,
) -> Tensor:
    """
    :param dim: the dim
    :param start: value of the first frame
    :param end: value of the last frame of each sequence, if it has more than one
    :param dtype: default: the default float dtype
    :param device: such as "cpu"
    :return: [dim], and the dims of its lengths: evenly spaced values
    """
    dtype = dtype or get_default_float_dtype()
    frames = range_over_dim(dim, dtype=dtype, device=device)
    lengths = dim.get_size_tensor_or_int(device=device)
    if isinstance(lengths, int):
        fraction = frames / float(max(lengths - 1, 1))
    else:
        last = maximum(combine_bc(lengths, "-", 1), 1)
        fraction = combine_bc(frames, "/", _as_dtype_of(last, frames))
    span = combine_bc(end, "-", start) if isinstance(end, Tensor) or isinstance(start, Tensor) else end - start
    return combine_bc(combine_bc(fraction, "*", span), "+", start)


def replace_dim(source: Tensor, *, in_dim: Dim, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """
    Another dim for the same axis, or for the sparse dim.

    :param source: {..., in_dim}
    :param in_dim: to replace
    :param out_dim: the new dim, as long as the other one. Default: a new one
    :return: {..., out_dim}; out_dim
    """
    if out_dim is None:
        out_dim = in_dim.copy(same_as_self=False, description="new-dim")
    else:
        out_dim = _with_size_of(in_dim, out_dim)
    return get_backend_of(source).replace_dim(source, in_dim=in_dim, out_dim=out_dim), out_dim


def replace_dim_v2(
    source: Tensor, *, in_dim: Dim, out_dim: Dim, allow_expand: bool = True, allow_shrink: bool = True
) -> Tensor:
    """
    Another dim for the same axis, which can be shorter or longer.

    :param source: {..., in_dim}
    :param in_dim: to replace
    :param out_dim: the new dim
    :param allow_expand: whether the axis can become longer in memory; new frames are 0
    :param allow_shrink: whether the axis can become shorter in memory
    :return: {..., out_dim}
    :raises DimError: if sizes are known and that was not allowed
    """
    require_dims("replace_dim_v2", source, [in_dim])
    if out_dim == in_dim:
        return source
    out_dim = _with_size_of(in_dim, out_dim)
    old, new = _known_size(source, in_dim), _known_size(source, out_dim)
    if old is not None and new is not None:
        if old == new:
            return get_backend_of(source).replace_dim(source, in_dim=in_dim, out_dim=out_dim)
        if not (allow_expand if old < new else allow_shrink):
            what = "longer" if old < new else "shorter"
            raise fail(f"replace_dim_v2: {source}: {out_dim} is {what} than {in_dim}, which is not allowed here.")
    if not allow_expand and not allow_shrink:
        return get_backend_of(source).replace_dim(source, in_dim=in_dim, out_dim=out_dim)
    return _resized(source, in_dim, out_dim, allow_expand)


def set_sparse_dim(source: Tensor, sparse_dim: Dim | None) -> Tensor:
    """:return: source, whose values are indices into `sparse_dim`"""
    return get_backend_of(source).set_sparse_dim(source, sparse_dim)


def masked_fraction_of_shape(
    dims: Dim | Sequence[Dim], *, inverse: bool = False, device: str | None = None
) -> int | float | Tensor:
    """
    :param dims: the shape
    :param inverse: return 1 / fraction
    :param device: such as "cpu"
    :return: which fraction of the entries belongs to sequences; the number 1 if no dim has padded frames
    """
    dims = [dims] if isinstance(dims, Dim) else list(dims)
    if not any(dim.need_masking() for dim in dims):
        return 1
    counts = [num_elements_of_shape(dims, use_mask=use_mask, device=device) for use_mask in (True, False)]
    if inverse:
        counts.reverse()
    a, b = (_as_float(count) for count in counts)
    return combine_bc(a, "/", b)


def last_frame_position_of_dim(
    dim: Dim, *, device: str | None = None, allow_scalar_on_cpu: bool = True
) -> int | Tensor:
    """
    :param dim: the dim
    :param device: such as "cpu"
    :param allow_scalar_on_cpu: a scalar can stay on the CPU, whatever the device is
    :return: the index of the last frame of each sequence; a number if the dim has a fixed size. For an empty sequence
        it is 0, although nothing is there: use `gather` with `clip_to_valid`
    """
    if dim.size is not None:
        return max(dim.size - 1, 0)
    lengths = dim.get_size_tensor()
    if not (allow_scalar_on_cpu and not lengths.dims):
        lengths = copy_to_device(lengths, device)
    return maximum(combine_bc(lengths, "-", 1), 0).copy_with_roles(sparse_dim=dim)


def dim_match_priority_when_needed(dim: Dim, *other_dims: Dim) -> Dim:
    """
    :param dim: goes into an operation beside `other_dims`
    :return: dim; if it is among them, a copy with a higher priority, so that the operation takes that one
    """
    highest = max((other.match_priority for other in other_dims if other == dim), default=None)
    if highest is None or dim.match_priority > highest:
        return dim
    return dim.copy(match_priority=highest + 1)


def _resized(source: Tensor, in_dim: Dim, out_dim: Dim, allow_expand: bool) -> Tensor:
    """:return: source with `out_dim`, cut or filled with 0 as needed"""
    if allow_expand:
        missing = maximum(combine_bc(out_dim.get_dim_value_tensor(), "-", in_dim.get_dim_value_tensor()), 0)
        source, (in_dim,) = pad(
            source, axes=[in_dim], padding=[(0, Dim(missing, name="missing"))], handle_dynamic_dims=False
        )
    return get_backend_of(source).slice(source, axis=in_dim, end=out_dim, out_dim=out_dim)


def _known_size(source: Tensor, dim: Dim) -> int | None:
    """:return: size in memory, where known before the graph runs"""
    if dim.size is not None or source.raw_tensor is None:
        return dim.size
    size = dim.get_dim_value()
    return size if isinstance(size, int) else None


def _with_size_of(in_dim: Dim, out_dim: Dim) -> Dim:
    if not out_dim.is_dim_known() and in_dim.size is not None:
        out_dim.size = in_dim.size
    elif not out_dim.is_dim_known() and in_dim.dyn_size_ext is not None:
        out_dim.dyn_size_ext = in_dim.dyn_size_ext
    return out_dim


def _as_float(x: int | Tensor) -> float | Tensor:
    return cast(x, get_default_float_dtype()) if isinstance(x, Tensor) else float(x)


def _as_dtype_of(x: Tensor, like: Tensor) -> Tensor:
    return cast(x, like.dtype)
