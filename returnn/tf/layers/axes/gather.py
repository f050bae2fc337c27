"""Entries by their index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.option_values import value_of
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class GatherLayer(_ConcatInputLayer):
    """
    Entries of a dim, by their index: `output[b, t, f] = source[b, position[b, t], f]`.

    Source [B..., axis, ...], position [B..., T...]; dims that both have, other than the axis, are matched.
    Output [B..., T..., ...].
    """

    layer_class = "gather"

    def __init__(self, position: LayerBase | int, axis: Any, clip_to_valid: bool = False, **kwargs: Any) -> None:
        """
        :param position: indices into the dim; a number for all
        :param axis: the dim, by description
        :param clip_to_valid: bring the indices into the range of the sequence, instead of an error
        """
        super().__init__(**kwargs)
        self.position = position
        self.axis = axis
        self.clip_to_valid = clip_to_valid

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B..., T..., ...]"""
        axis = self.dim_of(source, self.axis, option="axis")
        position = value_of(self.position)
        return rf.gather(source, indices=position, axis=axis, clip_to_valid=self.clip_to_valid)


class GatherNdLayer(_ConcatInputLayer):
    """
    The older `GatherLayer`: entries of the first axis behind the batch, by their index.

    Source [B, D, ...], position [B, T...], output [B, T..., ...].
    """

    layer_class = "gather_nd"

    def __init__(self, position: LayerBase, **kwargs: Any) -> None:
        """
        :param position: indices into the dim
        """
        super().__init__(**kwargs)
        self.position = position

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T..., ...]"""
        dims = self.dims_of(source, "except_batch")
        if not dims:
            raise ConfigError(f"{self.where()}: the source {source} has no axis behind the batch.")
        return rf.gather(source, indices=self.position.output, axis=dims[0])


class ScatterNdLayer(_ConcatInputLayer):
    """
    The inverse of `GatherLayer`: adds up entries at the places which their positions say:
    `output[b, position[b, t], f] += source[b, t, f]`.

    Source [B..., T, ...], position [B..., T], output [B..., N, ...]. Each of both can lack dims of the other one.
    """

    layer_class = "scatter_nd"

    def __init__(
        self,
        position: LayerBase,
        position_axis: Any,
        output_dim_via_time_from: LayerBase | None = None,
        out_spatial_dim: Dim | None = None,
        filter_invalid_indices: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param position: indices into the new dim
        :param position_axis: T, by description in the position
        :param output_dim_via_time_from: layer whose time dim is the new dim
        :param out_spatial_dim: the new dim
        :param filter_invalid_indices: leave out entries with an index below 0 or beyond the end, instead of an error
        """
        super().__init__(**kwargs)
        self.position = position
        self.position_axis = position_axis
        self.output_dim_via_time_from = output_dim_via_time_from
        self.out_spatial_dim = out_spatial_dim
        self.filter_invalid_indices = filter_invalid_indices
        if (output_dim_via_time_from is None) == (out_spatial_dim is None):
            raise ConfigError(f"{self.where()}: give either 'output_dim_via_time_from' or 'out_spatial_dim'.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B..., N, ...]"""
        position = self.position.output
        axis = self.dim_of(position, self.position_axis, option="position_axis")
        out_dim = self.out_spatial_dim
        if self.output_dim_via_time_from is not None:
            out_dim = self.dim_of(self.output_dim_via_time_from.output, "T", option="output_dim_via_time_from")
        source = rf.expand_to(source, position.dims)
        if self.filter_invalid_indices:
            position = valid_or_negative(position, out_dim)
        return rf.scatter(source, indices=position, indices_dim=axis, out_dim=out_dim, use_mask=True)


def valid_or_negative(position: Tensor, dim: Dim) -> Tensor:
    """:return: position, and -1, which counts for nothing, where it is outside of the dim"""
    size = dim.size if dim.size is not None else dim.get_dim_value_tensor()
    return rf.where(rf.compare_bc(position, "<", size), position, -1)


def only_valid_frames(position: Tensor, dims: Sequence[Dim]) -> Tensor:
    """:return: position {dims...}, and -1, which counts for nothing, for frames beyond the end of their sequence"""
    return rf.where(rf.sequence_mask(dims), position, -1, allow_broadcast_all_sources=True)
