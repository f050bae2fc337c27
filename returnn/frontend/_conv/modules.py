"""Modules with the parameters of a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend import init
from returnn.frontend._conv.functions import conv, transposed_conv
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._ops.nn.conv_windows import Padding, per_axis
from returnn.frontend._ops.operands import fail
from returnn.frontend.dims import dim_match_priority_when_needed
from returnn.frontend.module import Module
from returnn.frontend.parameter import Parameter
from returnn.tensor import Dim, Tensor


class _Filter(Module):
    """
    What convolutions share: parameters `filter` [filter_size..., filter_in_dim, out_dim] and `bias` [out_dim].
    """

    nd = 1
    groups: int | None = None

    def __init__(
        self,
        in_dim: Dim | int,
        out_dim: Dim | int,
        filter_size: int | Dim | Sequence[int | Dim],
        *,
        padding: Padding,
        strides: int | Sequence[int] | None,
        groups: int | None,
        with_bias: bool,
    ) -> None:
        super().__init__()
        self.in_dim = in_dim = feature_dim(in_dim, "in_dim")
        self.out_dim = out_dim = feature_dim(out_dim, "out_dim")
        sizes = list(filter_size) if isinstance(filter_size, Sequence) else [filter_size] * self.nd
        self.filter_size = [
            size if isinstance(size, Dim) else Dim(size, name=f"filter-dim{i}", kind=Dim.Types.Spatial)
            for i, size in enumerate(sizes)
        ]
        name = type(self).__name__
        per_axis(name, "filter_size", self.filter_size, self.nd)
        self.padding = padding
        self.strides = strides
        self.groups = groups
        if groups and in_dim.size is not None and in_dim.size % groups:
            raise fail(f"{name}: the features {in_dim} cannot be divided into {groups} groups.")
        in_group = in_dim if groups in (None, 1) else in_dim // groups
        self.filter_in_dim = dim_match_priority_when_needed(in_group, out_dim)
        self.filter = Parameter([*self.filter_size, self.filter_in_dim, out_dim], initial=init.Glorot())
        self.with_bias = with_bias
        self.bias = Parameter([out_dim], initial=0.0) if with_bias else None

    def _options(self) -> dict[str, Any]:
        return {
            "in_dim": self.in_dim,
            "out_dim": self.out_dim,
            "filter": self.filter,
            "filter_size": self.filter_size,
            "padding": self.padding,
            "strides": self.strides,
            "bias": self.bias,
        }


class _Conv(_Filter):
    """Convolution."""

    def __init__(
        self,
        in_dim: Dim | int,
        out_dim: Dim | int,
        filter_size: int | Dim | Sequence[int | Dim],
        *,
        padding: Padding,
        strides: int | Sequence[int] | None = None,
        dilation_rate: int | Sequence[int] | None = None,
        groups: int | None = None,
        with_bias: bool = True,
    ) -> None:
        """
        :param in_dim: features that come in
        :param out_dim: features that come out
        :param filter_size: for each axis, or the same for all
        :param padding: see `conv`
        :param strides: see `conv`
        :param dilation_rate: see `conv`
        :param groups: see `conv`
        :param with_bias: whether there is one
        """
        super().__init__(
            in_dim, out_dim, filter_size, padding=padding, strides=strides, groups=groups, with_bias=with_bias
        )
        self.dilation_rate = dilation_rate

    def _call(
        self, source: Tensor, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None
    ) -> tuple[Tensor, Sequence[Dim]]:
        return conv(
            source,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
            groups=self.groups,
            dilation_rate=self.dilation_rate,
            **self._options(),
        )


class _TransposedConv(_Filter):
    """Transposed convolution."""

    def __init__(
        self,
        in_dim: Dim | int,
        out_dim: Dim | int,
        filter_size: int | Dim | Sequence[int | Dim],
        *,
        padding: Padding,
        remove_padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int | None] | None = None,
        strides: int | Sequence[int] | None = None,
        with_bias: bool = True,
    ) -> None:
        """
        :param in_dim: features that come in
        :param out_dim: features that come out
        :param filter_size: for each axis, or the same for all
        :param padding: see `transposed_conv`
        :param remove_padding: see `transposed_conv`
        :param output_padding: see `transposed_conv`
        :param strides: see `transposed_conv`
        :param with_bias: whether there is one
        """
        super().__init__(
            in_dim, out_dim, filter_size, padding=padding, strides=strides, groups=None, with_bias=with_bias
        )
        self.remove_padding = remove_padding
        self.output_padding = output_padding

    def _call(
        self, source: Tensor, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None
    ) -> tuple[Tensor, Sequence[Dim]]:
        return transposed_conv(
            source,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
            remove_padding=self.remove_padding,
            output_padding=self.output_padding,
            **self._options(),
        )


class Conv1d(_Conv):
    """A convolution over one axis. Parameters: `filter`, `bias`."""

    nd = 1

    def __call__(
        self, source: Tensor, *, in_spatial_dim: Dim, out_spatial_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """
        :param source: {..., in_spatial_dim, in_dim}
        :param in_spatial_dim: the axis
        :param out_spatial_dim: default: made from the other
        :return: {..., out_spatial_dim, out_dim}; out_spatial_dim
        """
        out_dims = None if out_spatial_dim is None else [out_spatial_dim]
        out, (out_spatial_dim,) = self._call(source, [in_spatial_dim], out_dims)
        return out, out_spatial_dim


class Conv2d(_Conv):
    """A convolution over two axes. Parameters: `filter`, `bias`."""

    nd = 2

    def __call__(
        self, source: Tensor, *, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None = None
    ) -> tuple[Tensor, Sequence[Dim]]:
        """
        :param source: {..., in_spatial_dims..., in_dim}
        :param in_spatial_dims: the axes
        :param out_spatial_dims: default: made from the others
        :return: {..., out_spatial_dims..., out_dim}; out_spatial_dims
        """
        return self._call(source, in_spatial_dims, out_spatial_dims)


class Conv3d(_Conv):
    """A convolution over three axes. Parameters: `filter`, `bias`."""

    nd = 3

    def __call__(
        self, source: Tensor, *, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None = None
    ) -> tuple[Tensor, Sequence[Dim]]:
        """
        :param source: {..., in_spatial_dims..., in_dim}
        :param in_spatial_dims: the axes
        :param out_spatial_dims: default: made from the others
        :return: {..., out_spatial_dims..., out_dim}; out_spatial_dims
        """
        return self._call(source, in_spatial_dims, out_spatial_dims)


class TransposedConv1d(_TransposedConv):
    """A transposed convolution over one axis. Parameters: `filter`, `bias`."""

    nd = 1

    def __call__(
        self, source: Tensor, *, in_spatial_dim: Dim, out_spatial_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """
        :param source: {..., in_spatial_dim, in_dim}
        :param in_spatial_dim: the axis
        :param out_spatial_dim: default: made from the other
        :return: {..., out_spatial_dim, out_dim}; out_spatial_dim
        """
        out_dims = None if out_spatial_dim is None else [out_spatial_dim]
        out, (out_spatial_dim,) = self._call(source, [in_spatial_dim], out_dims)
        return out, out_spatial_dim


class TransposedConv2d(_TransposedConv):
    """A transposed convolution over two axes. Parameters: `filter`, `bias`."""

    nd = 2

    def __call__(
        self, source: Tensor, *, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None = None
    ) -> tuple[Tensor, Sequence[Dim]]:
        """
        :param source: {..., in_spatial_dims..., in_dim}
        :param in_spatial_dims: the axes
        :param out_spatial_dims: default: made from the others
        :return: {..., out_spatial_dims..., out_dim}; out_spatial_dims
        """
        return self._call(source, in_spatial_dims, out_spatial_dims)


class TransposedConv3d(_TransposedConv):
    """A transposed convolution over three axes. Parameters: `filter`, `bias`."""

    nd = 3

    def __call__(
        self, source: Tensor, *, in_spatial_dims: Sequence[Dim], out_spatial_dims: Sequence[Dim] | None = None
    ) -> tuple[Tensor, Sequence[Dim]]:
        """
        :param source: {..., in_spatial_dims..., in_dim}
        :param in_spatial_dims: the axes
        :param out_spatial_dims: default: made from the others
        :return: {..., out_spatial_dims..., out_dim}; out_spatial_dims
        """
        return self._call(source, in_spatial_dims, out_spatial_dims)
