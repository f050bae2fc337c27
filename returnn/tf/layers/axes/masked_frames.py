"""Leaves out frames, so that sequences become shorter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.util.errors import ConfigError


class BooleanMaskLayer(LayerBase):
    """
    The entries where a mask is true, behind each other.

    Source [dims..., ...], mask [dims...], output [out_dim, ...].
    """

    layer_class = "boolean_mask"

    def __init__(self, mask: LayerBase, dims: Sequence[str | Dim], out_dim: Dim | None = None, **kwargs: Any) -> None:
        """
        :param mask: bools
        :param dims: the dims to select from, the outermost first
        :param out_dim: the new dim
        """
        super().__init__(**kwargs)
        self.mask = mask
        self.dims = dims
        self.selected_dim = out_dim

    def compute(self, source: Tensor, *_others: Tensor) -> Tensor:
        """:return: [out_dim, ...]"""
        dims = [self.dim_of(source, dim, option="dims") for dim in self.dims]
        return _selected(self, source, self.mask.output, dims, self.selected_dim)


class RemoveLayer(LayerBase):
    """
    Leaves out a label.

    Source [B, T], labels; output [B, T'].
    """

    layer_class = "remove"

    def __init__(self, symbol: int, axis: Any = "T", out_dim: Dim | None = None, **kwargs: Any) -> None:
        """
        :param symbol: the label; negative: counted from the end of all labels
        :param axis: the dim of the frames, by description
        :param out_dim: the new dim
        """
        super().__init__(**kwargs)
        self.symbol = symbol
        self.axis = axis
        self.selected_dim = out_dim

    def compute(self, source: Tensor, *_others: Tensor) -> Tensor:
        """:return: [B, T']"""
        axis = self.dim_of(source, self.axis, option="axis")
        symbol = self.symbol
        if symbol < 0:
            if source.sparse_dim is None or source.sparse_dim.dimension is None:
                raise ConfigError(f"{self.where()}: option 'symbol': {symbol}, but the source {source} has no labels.")
            symbol += source.sparse_dim.dimension
        return _selected(self, source, rf.compare(source, "!=", symbol), [axis], self.selected_dim)


def _selected(layer: LayerBase, source: Tensor, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None) -> Tensor:
    out, dim = rf.masked_select(source, mask=mask, dims=dims, out_dim=out_dim or layer.new_dim("selected"))
    time_axis = source.time_dim_axis
    if time_axis is not None and source.dims[time_axis] in dims:
        out = out.copy_with_roles(time_dim=dim)
    return out
