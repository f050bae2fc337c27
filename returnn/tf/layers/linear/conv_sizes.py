"""
Convolution on axes of few different sizes in memory.

Each new size can make a GPU look for the fastest algorithm again. Those from a power series are few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor


def conv_with_few_sizes(
    source: Tensor,
    *,
    base: float,
    filter: Tensor,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None,
    strides: int | Sequence[int],
    use_mask: bool,
    **options: Any,
) -> tuple[Tensor, Sequence[Dim]]:
    """
    As `rf.conv`, with the same result. Only while it computes, axes of sequences are longer in memory.

    :param source: {..., in_spatial_dims..., in_dim}
    :param base: of the power series, more than 1
    :param filter: see `rf.conv`, likewise what follows
    :param options: further ones of `rf.conv`
    """
    options = {**options, "strides": strides, "use_mask": False}
    source = (
        source.copy_masked(0.0, dims=[dim for dim in in_spatial_dims if dim.is_dim_known()]) if use_mask else source
    )
    template, out_dims = rf.conv(
        source.copy_template(),
        filter=filter.copy_template(),
        in_spatial_dims=in_spatial_dims,
        out_spatial_dims=out_spatial_dims,
        **{**options, "bias": None},
    )
    if source.raw_tensor is None:
        return template, out_dims
    steps = [strides] * len(in_spatial_dims) if isinstance(strides, int) else strides
    longer = [_longer(dim, base, step) for dim, step in zip(in_spatial_dims, steps, strict=True)]
    for dim, new in zip(in_spatial_dims, longer, strict=True):
        source = rf.replace_dim_v2(source, in_dim=dim, out_dim=new, allow_shrink=False)
    output, conv_dims = rf.conv(source, filter=filter, in_spatial_dims=longer, **options)
    for dim, new in zip(conv_dims, out_dims, strict=True):
        output = rf.replace_dim_v2(output, in_dim=dim, out_dim=new, allow_expand=False)
    return output, out_dims


def _longer(dim: Dim, base: float, stride: int) -> Dim:
    """:return: dim of the next size of the series, and so much more that "same" puts as many frames before the first"""
    if dim.size is not None:
        return dim
    size = dim.get_dim_value_tensor()
    exponent = rf.ceil(rf.log(rf.cast(rf.maximum(size, 1), "float64")) / math.log(base))
    rounded = rf.maximum(rf.cast(rf.ceil(rf.pow(rf.convert_to_tensor(base, dtype="float64"), exponent)), "int32"), size)
    return Dim(rounded + (size - rounded) % stride, name=f"{dim.name}:longer")
