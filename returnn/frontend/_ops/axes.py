"""Single dims: add, remove or replace one, and give the axes another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.operands import OperandOps, expanded_template, fail, require_dims, shown
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class AxesOps(OperandOps):
    """Operations on single dims in memory. What becomes of the lengths of sequences is up to those who call them."""

    @classmethod
    def expand_dim(cls, source: Tensor, dim: Dim) -> Tensor:
        """:return: source with `dim` added, the values repeated along it"""
        out = expanded_template(source, dim)
        if cls.computes:
            axis = next(i for i, d in enumerate(out.dims) if d == dim)
            out._raw_tensor = cls.expand_raw(cls.expand_dims_raw(source._raw_tensor, axis), axis, dim.get_dim_value())
        return out

    @classmethod
    def squeeze(cls, source: Tensor, axis: Dim) -> Tensor:
        """:return: source without `axis`, which has size 1"""
        require_dims("squeeze: axis", source, [axis])
        if axis.size not in (1, None):
            raise fail(f"squeeze: {source}: only a dim of size 1 can be removed, not {axis}.")
        number = source.get_axis_from_description(axis)
        out = source.copy_template_excluding_axis(number)
        if cls.computes:
            out._raw_tensor = cls.squeeze_raw(source._raw_tensor, [number])
        return out

    @classmethod
    def make_output_tensor(cls, tensor: Tensor, dims: Sequence[Dim], *, name: str) -> Tensor:
        """:return: tensor with its axes in the order of `dims`"""
        out = tensor.copy_compatible_to_dims(dims, add_dims=False)
        out.name = name
        return out

    @classmethod
    def replace_dim(cls, source: Tensor, *, in_dim: Dim, out_dim: Dim) -> Tensor:
        """:return: source with `out_dim` for `in_dim`, the values as they are; both have the same size in memory"""
        if in_dim == source.sparse_dim and in_dim not in source.dims:
            return cls.set_sparse_dim(source, out_dim)
        require_dims("replace_dim", source, [in_dim])
        check_same_size("replace_dim", source, [in_dim], [out_dim])
        out = source.copy_template_replace_dim_tag(source.get_axis_from_description(in_dim), out_dim)
        if cls.computes:
            out._raw_tensor = source._raw_tensor
        return out

    @classmethod
    def set_sparse_dim(cls, source: Tensor, sparse_dim: Dim | None) -> Tensor:
        """:return: source, whose values are indices into `sparse_dim`"""
        if sparse_dim is not None and not source.dtype.startswith(("int", "uint")):
            raise DtypeError(f"set_sparse_dim: {source} should have integers, as indices into {sparse_dim}.")
        out = source.copy_template()
        out.sparse_dim = sparse_dim
        if cls.computes:
            out._raw_tensor = source._raw_tensor
        return out


def axes_of(source: Tensor, dims: Sequence[Dim]) -> list[int]:
    """:return: the axis of each dim"""
    return [source.get_axis_from_description(dim) for dim in dims]


def replaced_axes(source: Tensor, axes: Sequence[int], new_dims: Sequence[Dim]) -> Tensor:
    """
    :param source: tensor
    :param axes: its axes which are replaced, all together, by ...
    :param new_dims: ... these, at the place of the first of the axes. If the feature or the time axis is replaced, the
        last of these dims takes over this role.
    :return: template
    """
    before, behind = other_axes(source, axes)
    roles = [i for i in (source._feature_dim_axis, source._time_dim_axis) if i in axes]
    new_axes: list[Any] = [*[None] * (len(new_dims) - 1), roles[0] if roles else None] if new_dims else []
    dims = [*(source.dims[i] for i in before), *new_dims, *(source.dims[i] for i in behind)]
    return source._with_axes(dims, [*before, *new_axes, *behind])


def other_axes(source: Tensor, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """:return: all other axes: those before the first of `axes`, and those behind it"""
    rest = [i for i in range(len(source.dims)) if i not in axes]
    return [i for i in rest if i < min(axes)], [i for i in rest if i > min(axes)]


def check_same_size(operation: str, source: Tensor, old: Sequence[Dim], new: Sequence[Dim]) -> None:
    """:raises DimError: if there are not as many values as before, as far as known"""
    before, after = _size_of(old), _size_of(new)
    if before is None or after is None:
        return
    if before != after:
        raise fail(f"{operation}: {source}: {shown(old)} has {before} entries, but {shown(new)} has {after}.")


def _size_of(dims: Sequence[Dim]) -> int | None:
    """:return: the product of the sizes, None if one of them is not known"""
    size = 1
    for dim in dims:
        if dim.size is None:
            return None
        size *= dim.size
    return size
