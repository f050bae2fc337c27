"""Convolution and pooling: one product, or one array, for each position within the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy
from numpy import ndarray

from returnn.frontend._backends.template import TemplateBackend
from returnn.frontend._ops.nn.conv import conv_axes, filter_axes, pool_axes
from returnn.frontend._ops.nn.conv_windows import Window, transposed_windows, windows
from returnn.tensor import Dim, Tensor


class ConvReferenceOps:
    """For the meaning of the operations see `returnn.frontend._ops`."""

    @staticmethod
    def conv(
        source: Tensor,
        *,
        out_dim: Dim,
        filter: Tensor,
        filter_size: Sequence[Dim],
        padding: Any,
        strides: Any = None,
        dilation_rate: Any = None,
        groups: int | None = None,
        bias: Tensor | None = None,
        **dims: Any,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """:return: convolution, out spatial dims"""
        options = {"padding": padding, "strides": strides, "dilation_rate": dilation_rate}
        out, out_spatial_dims = TemplateBackend.conv(
            source, out_dim=out_dim, filter=filter, filter_size=filter_size, groups=groups, bias=bias, **dims, **options
        )
        moved = windows("conv", len(filter_size), size=filter_size, **options)
        x = _channels_last(source, dims["in_spatial_dims"], dims["in_dim"])
        weights = _filter(filter, filter_size, out_dim)
        groups = groups or 1
        total: Any = 0
        for offset, part in _positions(x, moved, 0):
            part = part.reshape(*part.shape[:-1], groups, part.shape[-1] // groups)
            w = weights[offset].reshape(weights.shape[-2], groups, -1)
            total = total + numpy.einsum("...gi,igo->...go", part, w)
        out.raw_tensor = _with_bias(total.reshape([int(d.get_dim_value()) for d in out.dims]), bias)
        return out, out_spatial_dims

    @staticmethod
    def transposed_conv(
        source: Tensor,
        *,
        out_dim: Dim,
        filter: Tensor,
        filter_size: Sequence[Dim],
        padding: Any,
        remove_padding: Any = 0,
        output_padding: Any = None,
        strides: Any = None,
        bias: Tensor | None = None,
        **dims: Any,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """:return: transposed convolution, out spatial dims"""
        options = {
            "padding": padding, "remove_padding": remove_padding, "output_padding": output_padding, "strides": strides,
        }  # fmt: skip
        out, out_spatial_dims = TemplateBackend.transposed_conv(
            source, out_dim=out_dim, filter=filter, filter_size=filter_size, bias=bias, **dims, **options
        )
        laid = transposed_windows("transposed_conv", len(filter_size), size=filter_size, **options)
        x = _channels_last(source, dims["in_spatial_dims"], dims["in_dim"])
        weights = _filter(filter, filter_size, out_dim)
        shape = [int(d.get_dim_value()) for d in out.dims]
        in_sizes, out_sizes = x.shape[1:-1], shape[-1 - len(laid) : -1]
        ends = [max(w.full_length(n), w.cut_left + size) for w, n, size in zip(laid, in_sizes, out_sizes, strict=True)]
        full = numpy.zeros([x.shape[0], *ends, shape[-1]], x.dtype)
        for offset in numpy.ndindex(*weights.shape[: len(laid)]):
            place = [slice(o, o + n * w.stride, w.stride) for o, n, w in zip(offset, in_sizes, laid, strict=True)]
            full[(slice(None), *place)] += x @ weights[offset]
        cut = [slice(w.cut_left, w.cut_left + size) for w, size in zip(laid, out_sizes, strict=True)]
        out.raw_tensor = _with_bias(full[(slice(None), *cut)].reshape(shape), bias)
        return out, out_spatial_dims

    @staticmethod
    def pool(
        source: Tensor,
        *,
        mode: str,
        pool_size: Any,
        padding: Any = "valid",
        dilation_rate: Any = 1,
        strides: Any,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """:return: maximum or average, out spatial dims"""
        options = {"padding": padding, "dilation_rate": dilation_rate, "strides": strides}
        out, out_spatial_dims = TemplateBackend.pool(
            source, mode=mode, pool_size=pool_size, in_spatial_dims=in_spatial_dims, out_spatial_dims=out_spatial_dims,
            **options,
        )  # fmt: skip
        moved = windows("pool", len(in_spatial_dims), size=pool_size, **options)
        before, spatial, behind = pool_axes(source, in_spatial_dims)
        shape = source.raw_tensor.shape
        sizes = [[shape[i] for i in axes] for axes in (before, spatial, behind)]
        x = source.raw_tensor.transpose([*before, *spatial, *behind])
        x = x.reshape(int(numpy.prod(sizes[0])), *sizes[1], int(numpy.prod(sizes[2])))
        if mode == "max":
            value = numpy.max([part for _, part in _positions(x, moved, -numpy.inf)], axis=0)
        else:
            total = sum(part for _, part in _positions(x, moved, 0))
            count = sum(part for _, part in _positions(numpy.ones([1, *x.shape[1:-1], 1], x.dtype), moved, 0))
            value = total / numpy.maximum(count, 1)
        out.raw_tensor = value.reshape([int(d.get_dim_value()) for d in out.dims]).astype(out.dtype)
        return out, out_spatial_dims


def _channels_last(source: Tensor, in_spatial_dims: Sequence[Dim], in_dim: Dim) -> ndarray:
    """:return: (all others, spatial..., in_dim)"""
    batch, spatial, feature = conv_axes(source, in_spatial_dims, in_dim)
    x = source.raw_tensor.transpose([*batch, *spatial, feature])
    rows: ndarray = x.reshape(int(numpy.prod(x.shape[: len(batch)])), *x.shape[len(batch) :])
    return rows


def _filter(filter: Tensor, filter_size: Sequence[Dim], out_dim: Dim) -> ndarray:
    """:return: (spatial..., in, out)"""
    spatial, in_axis, out_axis = filter_axes(filter, filter_size, out_dim)
    weights: ndarray = filter.raw_tensor.transpose([*spatial, in_axis, out_axis])
    return weights


def _positions(x: ndarray, moved: Sequence[Window], pad_value: float) -> Iterator[tuple[tuple[int, ...], ndarray]]:
    """:return: position in the window -> the frames of (batch, spatial..., feature) that it goes over"""
    out_sizes = []
    for axis, window in enumerate(moved, start=1):
        left, right = window.padding_for(x.shape[axis])
        padding = [(left, right) if i == axis else (0, 0) for i in range(x.ndim)]
        x = numpy.pad(x, padding, constant_values=pad_value)
        out_sizes.append(max((x.shape[axis] - window.extent - 1) // window.stride + 1, 0))
    for position in numpy.ndindex(*(window.size for window in moved)):
        slices = [
            slice(p * w.dilation, p * w.dilation + size * w.stride, w.stride)
            for p, w, size in zip(position, moved, out_sizes, strict=True)
        ]
        yield position, x[(slice(None), *slices)]


def _with_bias(value: ndarray, bias: Tensor | None) -> ndarray:
    return value if bias is None else value + bias.raw_tensor
