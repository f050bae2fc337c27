"""How many frames come out of a convolution, and the dims over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from returnn.frontend._ops.nn.conv_windows import (
    Padding,
    TransposedWindow,
    Window,
    per_axis,
    transposed_windows,
    windows,
)
from returnn.frontend._ops.operands import fail
from returnn.frontend._out_dims import out_dim_for
from returnn.tensor import Dim, Tensor

Length = TypeVar("Length", int, Dim, Tensor)


def make_conv_out_spatial_dims(
    in_spatial_dims: Sequence[Dim],
    *,
    filter_size: int | Dim | Sequence[int | Dim],
    padding: Padding,
    strides: int | Sequence[int] = 1,
    dilation_rate: int | Sequence[int] = 1,
    description_prefix: str | None = None,
) -> Sequence[Dim]:
    """
    :param in_spatial_dims: of the input
    :param filter_size: one for all, or one for each; likewise the others, see `conv`
    :param padding: see `conv`
    :param strides: distance of the windows
    :param dilation_rate: distance of frames within a window
    :param description_prefix: for the names of the dims; default: named by how they are computed
    :return: spatial dims of the output of a convolution or of pooling
    """
    moved = windows(
        "make_conv_out_spatial_dims",
        len(in_spatial_dims),
        size=filter_size,
        strides=strides,
        dilation_rate=dilation_rate,
        padding=padding,
    )
    return _named(make_out_spatial_dims("make_conv_out_spatial_dims", in_spatial_dims, None, moved), description_prefix)


def make_transposed_conv_out_spatial_dims(
    in_spatial_dims: Sequence[Dim],
    *,
    filter_size: int | Dim | Sequence[int | Dim],
    padding: Padding,
    output_padding: int | Sequence[int | None] | None = None,
    strides: int | Sequence[int] | None = None,
    dilation_rate: int | Sequence[int] = 1,
    description_prefix: str | None = None,
) -> Sequence[Dim]:
    """
    :param in_spatial_dims: of the input
    :param filter_size: one for all, or one for each; likewise the others, see `transposed_conv`
    :param padding: see `transposed_conv`
    :param output_padding: see `transposed_conv`
    :param strides: default: the filter sizes
    :param dilation_rate: distance of the output frames of one window
    :param description_prefix: for the names of the dims; default: named by how they are computed
    :return: spatial dims of the output of a transposed convolution
    """
    name, number = "make_transposed_conv_out_spatial_dims", len(in_spatial_dims)
    sizes = per_axis(name, "filter_size", filter_size, number)
    dilations = per_axis(name, "dilation_rate", dilation_rate, number)
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    laid = transposed_windows(
        name,
        number,
        size=extents,
        strides=sizes if strides is None else strides,
        padding=padding,
        output_padding=output_padding,
    )
    return _named(make_out_spatial_dims(name, in_spatial_dims, None, laid), description_prefix)


def calc_conv_out_length(
    in_length: Length,
    *,
    filter_size: int | Dim,
    stride: int,
    padding: str | int,
    dilation_rate: int = 1,
    name: str | None = None,
) -> Length:
    """
    :param in_length: number of frames, also as tensor; or the dim
    :param filter_size: size of the window
    :param stride: distance of the windows
    :param padding: see `conv`
    :param dilation_rate: distance of frames within a window
    :param name: of a dim or tensor that is returned; default: named by how it is computed
    :return: number of positions of the window, in the same form
    """
    (window,) = windows(
        "calc_conv_out_length", 1, size=filter_size, strides=stride, dilation_rate=dilation_rate, padding=padding
    )
    out: Length = _with_name(window.out_length(in_length), name)
    return out


def calc_transposed_conv_out_length(
    in_length: Length,
    *,
    filter_size: int | Dim,
    padding: str | int,
    output_padding: int | None = None,
    stride: int | None = None,
    dilation_rate: int = 1,
    name: str | None = None,
) -> Length:
    """
    :param in_length: number of frames, also as tensor; or the dim
    :param filter_size: size of the window
    :param padding: see `transposed_conv`
    :param output_padding: see `transposed_conv`
    :param stride: default: the filter size
    :param dilation_rate: distance of the output frames of one window
    :param name: of a dim or tensor that is returned; default: named by how it is computed
    :return: number of frames of the output, in the same form
    """
    (size,) = per_axis("calc_transposed_conv_out_length", "filter_size", filter_size, 1)
    (laid,) = transposed_windows(
        "calc_transposed_conv_out_length",
        1,
        size=(size - 1) * dilation_rate + 1,
        strides=size if stride is None else stride,
        padding=padding,
        output_padding=output_padding,
    )
    out: Length = _with_name(laid.out_length(in_length), name)
    return out


def make_out_spatial_dims(
    operation: str,
    in_dims: Sequence[Dim],
    given: Sequence[Dim] | None,
    windows_: Sequence[Window | TransposedWindow],
) -> list[Dim]:
    """
    :param operation: for errors
    :param in_dims: spatial dims of the input
    :param given: spatial dims of the output by the caller, if any
    :param windows_: for each of them
    """
    if given is not None and len(given) != len(in_dims):
        raise fail(f"{operation}: {len(in_dims)} spatial dims come in, but {len(given)} should come out.")
    out_dims: Sequence[Dim | None] = given or [None] * len(in_dims)
    return [
        out_dim_for(operation, out_dim, window.out_length(in_dim))
        for out_dim, in_dim, window in zip(out_dims, in_dims, windows_, strict=True)
    ]


def _named(dims: Sequence[Dim], prefix: str | None) -> Sequence[Dim]:
    if prefix is None:
        return dims
    return [_with_name(dim, f"{prefix}:spatial{i}") for i, dim in enumerate(dims)]


def _with_name(length: Any, name: str | None) -> Any:
    if name is None or isinstance(length, int):
        return length
    if isinstance(length, Dim):
        named = Dim(length.size, name=name, kind=length.kind)
        if length.size is None:
            named.declare_same_as(length)
        return named
    named = length.copy()
    named.name = name
    return named
