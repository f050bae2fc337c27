"""Convolution and pooling: everything but the spatial axes and the features becomes one batch axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._ops.layout import product, raw_in_order
from returnn.frontend._ops.nn.conv_windows import TransposedWindow, Window, transposed_windows, windows
from returnn.frontend._template_backend import TemplateBackend
from returnn.frontend._template_backend.conv import conv_axes, filter_axes, pool_axes
from returnn.tensor import Dim, Tensor


class ConvArrayOps(CoreArrayOps):
    """Convolution and pooling, on the raw operations below, which TensorFlow and PyTorch define."""

    channels_last = True  # whether the raw operations have the features behind the spatial axes, or before them

    @staticmethod
    def conv_raw(raw_tensor: Any, filter: Any, moved: Sequence[Window], groups: int) -> Any:
        """
        :param raw_tensor: (N, spatial..., I), or (N, I, spatial...)
        :param filter: (spatial..., I / groups, O), or (O, I / groups, spatial...)
        :param moved: for each spatial axis
        :param groups: the features are divided into so many groups, each on its own
        :return: (N, spatial..., O), or (N, O, spatial...)
        """
        raise NotImplementedError

    @staticmethod
    def transposed_conv_raw(
        raw_tensor: Any, filter: Any, laid: Sequence[TransposedWindow], sizes: Sequence[Any]
    ) -> Any:
        """
        :param raw_tensor: (N, spatial..., I), or (N, I, spatial...)
        :param filter: (spatial..., O, I), or (I, O, spatial...)
        :param laid: for each spatial axis
        :param sizes: of the spatial axes of the output
        :return: (N, spatial..., O), or (N, O, spatial...)
        """
        raise NotImplementedError

    @staticmethod
    def pool_raw(raw_tensor: Any, mode: str, moved: Sequence[Window]) -> Any:
        """
        :param raw_tensor: (N, spatial..., C), or (N, C, spatial...)
        :param mode: "max", "avg"
        :param moved: for each spatial axis
        :return: in the same layout
        """
        raise NotImplementedError

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
        padding: Any,
        strides: Any = None,
        dilation_rate: Any = None,
        groups: int | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """:return: convolution, out spatial dims"""
        filter = cls.as_tensor(filter)
        options = {"padding": padding, "strides": strides, "dilation_rate": dilation_rate}
        out, out_spatial_dims = TemplateBackend.conv(
            source, in_dim=in_dim, out_dim=out_dim, in_spatial_dims=in_spatial_dims, out_spatial_dims=out_spatial_dims,
            filter=filter, filter_size=filter_size, groups=groups, bias=bias, **options,
        )  # fmt: skip
        moved = windows("conv", len(in_spatial_dims), size=filter_size, **options)
        batch, spatial, feature = conv_axes(source, in_spatial_dims, in_dim)
        raw = cls._as_image(source, batch, spatial, [feature])
        filter_spatial, in_axis, out_axis = filter_axes(filter, filter_size, out_dim)
        perm = [*filter_spatial, in_axis, out_axis] if cls.channels_last else [out_axis, in_axis, *filter_spatial]
        raw = cls.conv_raw(raw, _transposed(cls, filter._raw_tensor, perm), moved, groups or 1)
        out._raw_tensor = cls._from_image(raw, [len(batch), len(spatial), 1], out)
        return cls._with_bias(out, bias), out_spatial_dims

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
        padding: Any,
        remove_padding: Any = 0,
        output_padding: Any = None,
        strides: Any = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """:return: transposed convolution, out spatial dims"""
        filter = cls.as_tensor(filter)
        options = {
            "padding": padding, "remove_padding": remove_padding, "output_padding": output_padding, "strides": strides,
        }  # fmt: skip
        out, out_spatial_dims = TemplateBackend.transposed_conv(
            source, in_dim=in_dim, out_dim=out_dim, in_spatial_dims=in_spatial_dims, out_spatial_dims=out_spatial_dims,
            filter=filter, filter_size=filter_size, bias=bias, **options,
        )  # fmt: skip
        laid = transposed_windows("transposed_conv", len(in_spatial_dims), size=filter_size, **options)
        batch, spatial, feature = conv_axes(source, in_spatial_dims, in_dim)
        raw = cls._as_image(source, batch, spatial, [feature])
        filter_spatial, in_axis, out_axis = filter_axes(filter, filter_size, out_dim)
        perm = [*filter_spatial, out_axis, in_axis] if cls.channels_last else [in_axis, out_axis, *filter_spatial]
        sizes = [dim.get_dim_value() for dim in out_spatial_dims]
        raw = cls.transposed_conv_raw(raw, _transposed(cls, filter._raw_tensor, perm), laid, sizes)
        out._raw_tensor = cls._from_image(raw, [len(batch), len(spatial), 1], out)
        return cls._with_bias(out, bias), out_spatial_dims

    @classmethod
    def pool(
        cls,
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
        raw = cls.pool_raw(cls._as_image(source, before, spatial, behind), mode, moved)
        out._raw_tensor = cls._from_image(raw, [len(before), len(spatial), len(behind)], out)
        return out, out_spatial_dims

    @classmethod
    def _as_image(cls, x: Tensor, batch: list[int], spatial: list[int], features: list[int]) -> Any:
        """:return: raw tensor with one axis for all batch axes, the spatial ones, and one for all features"""
        groups = [batch, *([i] for i in spatial), features]
        if not cls.channels_last:
            groups = [batch, features, *([i] for i in spatial)]
        raw = _transposed(cls, x._raw_tensor, [i for axes in groups for i in axes])
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
    def _with_bias(cls, out: Tensor, bias: Tensor | None) -> Tensor:
        if bias is None:
            return out
        with_bias = out.copy_template()
        with_bias._raw_tensor = cls.combine_raw(out._raw_tensor, "add", raw_in_order(cls.as_tensor(bias), bias.dims))
        return with_bias


def _transposed(backend: Any, raw: Any, perm: list[int]) -> Any:
    return raw if perm == sorted(perm) else backend.transpose_raw(raw, perm)
