"""Trained factors for the entries of dims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.axes.dims_apart import apart_from
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError, check_known


class ElemwiseProdLayer(_ConcatInputLayer):
    """
    Multiplies each entry of some dims by a trained factor.

    Source [..., axes...], output the same dims. Parameter `W`: [axes...].
    """

    layer_class = "elemwise_prod"

    def __init__(self, axes: Any, size: int | Sequence[int] | None = None, **kwargs: Any) -> None:
        """
        :param axes: dims of fixed size, by description
        :param size: their sizes, as a check
        """
        super().__init__(**kwargs)
        self.axes = axes
        self.size = size

    def compute(self, source: Tensor) -> Tensor:
        """:return: the same dims"""
        dims = _static_dims(self, source, self.axes)
        sizes = [dim.size for dim in dims]
        if self.size is not None and _as_list(self.size, len(dims)) != sizes:
            raise ConfigError(f"{self.where()}: option 'size' is {self.size}, but the dims are {dims}.")
        return source * self.parameter("W", dims, initial=1.0)


class WeightedSumLayer(_ConcatInputLayer):
    """
    Sum over some dims with trained weights, or over a window that slides over them.

    Source [..., axes...], output [...]; with a window [..., shorter axes...]. Parameter `W`: [axes...], or [window...].
    """

    layer_class = "weighted_sum"

    def __init__(
        self,
        axes: Any,
        padding: str | None = None,
        size: int | Sequence[int] | None = None,
        keep_dims: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param axes: by description. Without a window, dims of fixed size
        :param padding: with a window: "valid", the default: it stays inside of the dims; "same": frames outside of the
            axis in memory are 0
        :param size: of the window. Default: the whole dims
        :param keep_dims: keep the dims, also if their size is 1. Default: only with padding "same", or a window
        """
        super().__init__(**kwargs)
        self.axes = axes
        self.padding = (padding or "valid").lower()
        self.size = size
        self.keep_dims = (size is not None or padding == "same") if keep_dims is None else keep_dims
        check_known("padding", self.padding, ("same", "valid"), where=self.where())

    def compute(self, source: Tensor) -> Tensor:
        """:return: [...] or [..., shorter axes...]"""
        if self.size is None:
            dims = _static_dims(self, source, self.axes, hint="\n  Along sequences, a window can slide: 'size'.")
            sizes = [dim.size for dim in dims]
        else:
            dims = self.dims_of(source, self.axes, option="axes")
            sizes = _as_list(self.size, len(dims))
        if self.padding == "valid" and sizes == [dim.size for dim in dims]:
            return self._sum_of_all(source, dims)
        if len(sizes) != len(dims):
            raise ConfigError(f"{self.where()}: option 'size' is {self.size}, but the dims are {dims}.")
        windows = [self.new_dim(f"window-{i}", size, auto_generated=False) for i, size in enumerate(sizes)]
        for i, (dim, window) in enumerate(zip(dims, windows, strict=True)):
            new = dim.sub_right(window.size - 1) if self.padding == "valid" else dim
            source, named = apart_from(self, new, source, axis=dim)
            windows_of_dim, out_dim = rf.window(
                source, spatial_dim=dim, window_dim=window, padding=self.padding, use_mask=False
            )
            source = named(windows_of_dim)
            dims[i] = out_dim
        out = rf.matmul(source, self._weights(windows), reduce=windows)
        for dim in [] if self.keep_dims else [dim for dim in dims if dim.size == 1]:
            out = rf.squeeze(out, dim)
        return out

    def _sum_of_all(self, source: Tensor, dims: list[Dim]) -> Tensor:
        out = rf.matmul(source, self._weights(dims), reduce=dims)
        return rf.expand_dims(out, self.new_dims_of_size_one("sum", dims, beside=out.dims)) if self.keep_dims else out

    def _weights(self, dims: list[Dim]) -> Tensor:
        return self.parameter("W", dims, initial=1.0 / math.prod(dim.size or 1 for dim in dims))


def _static_dims(layer: _ConcatInputLayer, source: Tensor, axes: Any, *, hint: str = "") -> list[Dim]:
    dims = layer.dims_of(source, axes, option="axes")
    if not dims or any(dim.size is None for dim in dims):
        raise ConfigError(f"{layer.where()}: option 'axes': {axes!r} are no dims of fixed size of {source}.{hint}")
    return dims


def _as_list(size: int | Sequence[int], number: int) -> list[int]:
    return [size] * number if isinstance(size, int) else list(size)
