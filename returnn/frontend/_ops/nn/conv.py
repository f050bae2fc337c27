"""Convolution and pooling: everything but the spatial axes and the features becomes one batch axis."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from returnn.frontend._ops.layout import product, raw_in_order
from returnn.frontend._ops.nn.conv_windows import Padding, TransposedWindow, Window, transposed_windows, windows
from returnn.frontend._ops.operands import fail, require_dims, require_float, shown
from returnn.frontend._ops.precision import PrecisionOps
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError, check_known

POOL_MODES = ("max", "avg")


class ConvOps(PrecisionOps):
    """
    Convolution and pooling. All frames in memory count; those beyond the end of sequences are masked before.

    Kinds of padding are those of `conv_windows.Window`.
    """

    @classmethod
    def conv(
        cls,
        source: Tensor,
        *,
        in_dim: Dim,
        out_dim: Dim,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
        filter: Tensor,
        filter_size: Sequence[Dim],
        padding: Padding,
        strides: int | Sequence[int] | None = None,
        dilation_rate: int | Sequence[int] | None = None,
        groups: int | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """See `returnn.frontend.conv`."""
        filter = cls.as_tensor(filter)
        _check_operands("conv", source, in_dim, out_dim, in_spatial_dims, filter, bias)
        _check_groups(in_dim, out_dim, filter, filter_size, groups or 1)
        moved = windows(
            "conv",
            len(in_spatial_dims),
            size=filter_size,
            strides=strides,
            dilation_rate=dilation_rate,
            padding=padding,
        )
        out_spatial_dims = _out_spatial_dims("conv", in_spatial_dims, out_spatial_dims, moved)
        out = _out_template("conv", source, in_dim, out_dim, in_spatial_dims, out_spatial_dims)
        if cls.computes:
            batch, spatial, feature = conv_axes(source, in_spatial_dims, in_dim)
            raw = cls._as_image(source, batch, spatial, [feature])
            filter_spatial, in_axis, out_axis = filter_axes(filter, filter_size, out_dim)
            perm = [*filter_spatial, in_axis, out_axis] if cls.channels_last else [out_axis, in_axis, *filter_spatial]
            convolve = functools.partial(cls.conv_raw, moved=moved, groups=groups or 1)
            raw = cls.product_raw(convolve, raw, cls._transposed(filter._raw_tensor, perm), dtype=source.dtype)
            out._raw_tensor = cls._with_bias(cls._from_image(raw, [len(batch), len(spatial), 1], out), bias)
        return out, out_spatial_dims

    @classmethod
    def transposed_conv(
        cls,
        source: Tensor,
        *,
        in_dim: Dim,
        out_dim: Dim,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
        filter: Tensor,
        filter_size: Sequence[Dim],
        padding: Padding,
        remove_padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int | None] | None = None,
        strides: int | Sequence[int] | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """See `returnn.frontend.transposed_conv`."""
        name = "transposed_conv"
        filter = cls.as_tensor(filter)
        _check_operands(name, source, in_dim, out_dim, in_spatial_dims, filter, bias)
        _check_groups(in_dim, out_dim, filter, filter_size, 1)
        laid = transposed_windows(
            name,
            len(in_spatial_dims),
            size=filter_size,
            strides=strides,
            padding=padding,
            remove_padding=remove_padding,
            output_padding=output_padding,
        )
        out_spatial_dims = _out_spatial_dims(name, in_spatial_dims, out_spatial_dims, laid)
        out = _out_template(name, source, in_dim, out_dim, in_spatial_dims, out_spatial_dims)
        if cls.computes:
            batch, spatial, feature = conv_axes(source, in_spatial_dims, in_dim)
            raw = cls._as_image(source, batch, spatial, [feature])
            filter_spatial, in_axis, out_axis = filter_axes(filter, filter_size, out_dim)
            perm = [*filter_spatial, out_axis, in_axis] if cls.channels_last else [in_axis, out_axis, *filter_spatial]
            sizes = [dim.get_dim_value() for dim in out_spatial_dims]
            convolve = functools.partial(cls.transposed_conv_raw, laid=laid, sizes=sizes)
            raw = cls.product_raw(convolve, raw, cls._transposed(filter._raw_tensor, perm), dtype=source.dtype)
            out._raw_tensor = cls._with_bias(cls._from_image(raw, [len(batch), len(spatial), 1], out), bias)
        return out, out_spatial_dims

    @classmethod
    def pool(
        cls,
        source: Tensor,
        *,
        mode: str,
        pool_size: int | Sequence[int],
        padding: Padding = "valid",
        dilation_rate: int | Sequence[int] = 1,
        strides: int | Sequence[int],
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """See `returnn.frontend.pool`. Frames of padding do not count, also not in an average."""
        check_known("mode", mode, POOL_MODES, where="pool")
        _check_spatial_dims("pool", source, in_spatial_dims)
        require_float("pool", source)
        moved = windows(
            "pool", len(in_spatial_dims), size=pool_size, strides=strides, dilation_rate=dilation_rate, padding=padding
        )
        out_spatial_dims = _out_spatial_dims("pool", in_spatial_dims, out_spatial_dims, moved)
        before, spatial, behind = pool_axes(source, in_spatial_dims)
        dims = [*(source.dims[i] for i in before), *out_spatial_dims, *(source.dims[i] for i in behind)]
        out = source._with_axes(dims, [*before, *spatial, *behind], name="pool")
        if cls.computes:
            raw = cls.pool_raw(cls._as_image(source, before, spatial, behind), mode, moved)
            out._raw_tensor = cls._from_image(raw, [len(before), len(spatial), len(behind)], out)
        return out, out_spatial_dims

    @classmethod
    def _as_image(cls, x: Tensor, batch: list[int], spatial: list[int], features: list[int]) -> Any:
        """:return: raw tensor with one axis for all batch axes, the spatial ones, and one for all features"""
        groups = [batch, *([i] for i in spatial), features]
        if not cls.channels_last:
            groups = [batch, features, *([i] for i in spatial)]
        raw = cls._transposed(x._raw_tensor, [i for axes in groups for i in axes])
        if all(len(axes) == 1 for axes in groups):
            return raw
        return cls.reshape_raw(raw, [product([x.dims[i].get_dim_value() for i in axes]) for axes in groups])

    @classmethod
    def _from_image(cls, raw: Any, counts: Sequence[int], out: Tensor) -> Any:
        """
        :param raw: in the layout of `_as_image`
        :param counts: number of batch axes, spatial axes and feature axes of the output
        :param out: in this order
        :return: raw tensor with the axes of `out`
        """
        num_spatial = counts[1]
        if not cls.channels_last:
            raw = cls.transpose_raw(raw, [0, *range(2, 2 + num_spatial), 1])
        if counts[0] == 1 and counts[2] == 1:
            return raw
        return cls.reshape_raw(raw, [dim.get_dim_value() for dim in out.dims])

    @classmethod
    def _with_bias(cls, raw: Any, bias: Tensor | None) -> Any:
        """:return: raw tensor (..., out_dim) with the bias"""
        if bias is None:
            return raw
        return cls.combine_raw(raw, "add", raw_in_order(cls.as_tensor(bias), bias.dims))

    @classmethod
    def _transposed(cls, raw: Any, perm: list[int]) -> Any:
        return raw if perm == sorted(perm) else cls.transpose_raw(raw, perm)


def conv_axes(source: Tensor, in_spatial_dims: Sequence[Dim], in_dim: Dim) -> tuple[list[int], list[int], int]:
    """:return: the axes of source: all others, as batch; spatial; in_dim"""
    feature = source.get_axis_from_description(in_dim)
    spatial = [source.get_axis_from_description(dim) for dim in in_spatial_dims]
    return [i for i in range(len(source.dims)) if i != feature and i not in spatial], spatial, feature


def pool_axes(source: Tensor, in_spatial_dims: Sequence[Dim]) -> tuple[list[int], list[int], list[int]]:
    """:return: the axes of source: before the first spatial one; spatial; the others"""
    spatial = [source.get_axis_from_description(dim) for dim in in_spatial_dims]
    others = [i for i in range(len(source.dims)) if i not in spatial]
    return [i for i in others if i < min(spatial)], spatial, [i for i in others if i > min(spatial)]


def filter_axes(filter: Tensor, filter_size: Sequence[Dim], out_dim: Dim) -> tuple[list[int], int, int]:
    """
    :return: the axes of the filter: spatial; the one that is summed over; out. If the latter two have the same dim, the
        one with the higher match priority is summed over.
    """
    rest = list(range(len(filter.dims)))
    spatial = []
    for dim in filter_size:
        axis = next((i for i in rest if filter.dims[i] == dim), None)
        if axis is None:
            raise fail(f"conv: the filter {filter} has no dim {dim}, which filter_size says.")
        rest.remove(axis)
        spatial.append(axis)
    out = [i for i in rest if filter.dims[i] == out_dim]
    if len(rest) != 2 or not out:
        raise fail(
            f"conv: the filter {filter} should have the dims {shown(filter_size)}, one for the input, and {out_dim}."
        )
    out_axis = min(out, key=lambda i: filter.dims[i].match_priority)
    return spatial, next(i for i in rest if i != out_axis), out_axis


def _out_template(
    name: str,
    source: Tensor,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim],
) -> Tensor:
    """:return: [batch..., out_spatial..., out_dim]"""
    batch, spatial, feature = conv_axes(source, in_spatial_dims, in_dim)
    dims = [*(source.dims[i] for i in batch), *out_spatial_dims, out_dim]
    out = source._with_axes(dims, [*batch, *spatial, feature], name=name)
    return out.copy_with_roles(feature_dim=out_dim)


def _out_spatial_dims(
    operation: str,
    in_dims: Sequence[Dim],
    given: Sequence[Dim] | None,
    moved: Sequence[Window | TransposedWindow],
) -> Sequence[Dim]:
    if given is None:
        return [window.out_length(dim) for window, dim in zip(moved, in_dims, strict=True)]
    if len(given) != len(in_dims):
        raise fail(f"{operation}: {len(in_dims)} spatial dims come in, but {len(given)} should come out.")
    return given


def _check_operands(
    name: str,
    source: Tensor,
    in_dim: Dim,
    out_dim: Dim,
    in_spatial_dims: Sequence[Dim],
    filter: Tensor,
    bias: Tensor | None,
) -> None:
    require_dims(f"{name}: in_dim", source, [in_dim])
    _check_spatial_dims(name, source, in_spatial_dims)
    require_float(name, source)
    for operand in (filter, *([] if bias is None else [bias])):
        if operand.dtype != source.dtype:
            raise DtypeError(f"{name}: the dtypes of {source} and {operand} differ.\n  Use rf.cast on one of them.")
    if bias is not None and bias.dims != (out_dim,):
        raise fail(f"{name}: the bias {bias} should have the dim {out_dim}.")


def _check_spatial_dims(name: str, source: Tensor, in_spatial_dims: Sequence[Dim]) -> None:
    if not 1 <= len(in_spatial_dims) <= 3:
        raise fail(f"{name}: {source}: there can be 1 to 3 spatial dims, got {shown(in_spatial_dims)}.")
    require_dims(f"{name}: in_spatial_dims", source, in_spatial_dims)


def _check_groups(in_dim: Dim, out_dim: Dim, filter: Tensor, filter_size: Sequence[Dim], groups: int) -> None:
    _, in_axis, _ = filter_axes(filter, filter_size, out_dim)
    sizes: list[Any] = [in_dim.size, out_dim.size, filter.dims[in_axis].size]
    if None in sizes:
        raise fail(f"conv: {in_dim}, {out_dim} and those of the filter {filter} should have fixed sizes.")
    if groups < 1 or sizes[0] % groups or sizes[1] % groups:
        raise fail(f"conv: {in_dim} and {out_dim} cannot both be divided into {groups} groups.")
    if sizes[2] * groups != sizes[0]:
        raise fail(
            f"conv: the filter {filter} takes {sizes[2]} features, but {in_dim} in {groups} groups are "
            f"{sizes[0] // groups} each."
        )
