"""A slice from a position which can be another one for each sequence."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.option_values import number_of
from returnn.tf.layers.core.sources import _ConcatInputLayer


class SliceNdLayer(_ConcatInputLayer):
    """
    A slice of a dim, from a position which can depend on others: `output[b, i] = x[b, start[b] + i]`.

    Source [B, T, ...], start [B], output [B, size, ...]; with a start [B, S], the output is [B, S, size, ...].
    Frames outside of the sequence are 0.
    """

    layer_class = "slice_nd"
    recurrent = True

    def __init__(
        self,
        size: LayerBase | Dim | int | None,
        start: LayerBase | int | None = None,
        min_size: int | None = None,
        axis: Any = "T",
        out_spatial_dim: Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param size: number of frames. None: up to the end of each sequence
        :param start: first frame
        :param min_size: at least so many frames, if the size is not a number
        :param axis: the dim, by description
        :param out_spatial_dim: the new dim
        """
        super().__init__(**kwargs)
        self.size = size
        self.start = start
        self.min_size = min_size
        self.axis = axis
        self.out_spatial_dim = out_spatial_dim

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, size, ...]"""
        axis = self.dim_of(source, self.axis, option="axis")
        start = 0 if self.start is None else number_of(self.start)
        size = number_of(self.size)
        if size is None:
            size = rf.combine_bc(axis.get_size_tensor(), "-", start)
        if isinstance(size, Tensor):
            size = rf.maximum(size, self.min_size or 0)
        is_static = isinstance(size, int)
        given = size if isinstance(size, Dim) else self.out_spatial_dim
        others = [dim for dim in source.dims if dim != axis]
        others += start.dims if isinstance(start, Tensor) else ()
        out_dim = given or self.new_dim_beside("slice", size if is_static else None, others)
        out, _ = rf.slice(source, axis=axis, start=start, size=size, out_dim=out_dim)
        return out
