"""Dims that come out of an operation: those the caller gave, or else computed ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import padded_dim
from returnn.util.errors import DimError


def out_dim_for(operation: str, given: Dim | None, computed: Dim) -> Dim:
    """
    :param operation: for the error
    :param given: by the caller, if any. If nothing is known about its size yet, it becomes the same as `computed`.
    :param computed: what follows from the operands
    :raises DimError: if the sizes differ
    """
    if given is None or given is computed:
        return computed
    if given.size is not None and computed.size is not None:
        if given.size != computed.size:
            raise DimError(f"{operation}: the out dim {given} should have the size {computed.size}.")
        return given
    has_lengths = given.is_batch_dim() or given.dyn_size is not None
    if given.size is None and not given.is_derived() and given.length_rule is None and not has_lengths:
        given.declare_same_as(computed)
    return given


def out_dim_with_lengths(given: Dim | None, lengths: Tensor, *, name: str, like: Dim) -> Dim:
    """
    :param given: by the caller, if any
    :param lengths: the lengths that the out dim has
    :param name: of a new dim
    :param like: the new dim is of the same kind as this one
    :return: the given dim, or a new one, with these lengths
    """
    dim = Dim(None, name=name, kind=like.kind) if given is None else given
    if dim.size is None and dim.dyn_size is None:
        dim.dyn_size_ext = lengths
    return dim


def product_dim(dims: Sequence[Dim]) -> Dim:
    """:return: the dim of the merged axis. No dims: of size 1"""
    if not dims:
        return Dim(1, name="1", auto_generated=True)
    return reduce(lambda a, b: a * b, dims)


def merged_in_memory(dims: Sequence[Dim]) -> Dim:
    """:return: the dim of the axis into which these are reshaped, outer to inner; padded frames in between count"""
    parts = parts_of_merged(dims)
    return product_dim([padded_dim(dim) for dim in parts] if has_gaps(parts) else parts)


def parts_of_merged(dims: Sequence[Dim]) -> list[Dim]:
    """
    :param dims: outer to inner
    :return: the dims that the merged one is the product of. If the lengths of one depend on another one of them, as
        with batch and time, all frames in memory count, since sequences which are cut up have no lengths any more.
    """
    return [padded_dim(dim) if dim.need_masking() and _depends_on(dim, dims) else dim for dim in dims]


def has_gaps(parts: Sequence[Dim]) -> bool:
    """:return: whether padded frames would stand between others, if the dims were just reshaped"""
    inner = False
    for part in parts:
        if inner and part.need_masking():
            return True
        inner = inner or part.size != 1
    return False


def _depends_on(dim: Dim, others: Sequence[Dim]) -> bool:
    lengths = dim.dyn_size_ext
    if lengths is None:
        return dim.size is None and any(other.is_batch_dim() for other in others)
    return any(other in lengths.dims for other in others)
