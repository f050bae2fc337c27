"""Another value for frames outside of a sequence or a window."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.option_values import value_like
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.reductions.softmax_over_spatial import mask_of_window
from returnn.tf.layers.values.ranges import frame_numbers
from returnn.util.errors import ConfigError


class SeqLenMaskLayer(_ConcatInputLayer):
    """
    Sets the frames beyond the end of each sequence to a value; also those outside of a window.

    Source [B, T, ...], output the same dims.
    """

    layer_class = "seq_len_mask"

    def __init__(
        self,
        mask_value: float,
        axis: Any = "T",
        seq_len_source: LayerBase | None = None,
        start: LayerBase | None = None,
        window_start: LayerBase | None = None,
        window_size: LayerBase | int | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param mask_value: for the frames outside
        :param axis: the dim, by description
        :param seq_len_source: layer whose time dim has the lengths, or which is these, [B]. Default: the source itself
        :param start: [B], first frame inside
        :param window_start: [B], first frame of a window
        :param window_size: number of frames in the window
        """
        super().__init__(**kwargs)
        self.mask_value = mask_value
        self.axis = axis
        self.seq_len_source = seq_len_source
        self.start = start
        self.window_start = window_start
        self.window_size = window_size
        if (window_start is None) != (window_size is None):
            raise ConfigError(f"{self.where()}: give both of the options 'window_start' and 'window_size', or none.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: the same dims"""
        mask = self.build_mask(source)
        value = value_like(self.mask_value, source.dtype)
        return source if mask is None else rf.where(mask, source, value, allow_broadcast_all_sources=True)

    def has_zero_padding(self) -> bool:
        """:return: whether it makes them 0"""
        sequences = [dim for dim in self.output.dims if dim.is_dynamic_seq_length()]
        return self.mask_value == 0 and self.seq_len_source is None and len(sequences) == 1

    def build_mask(self, source: Tensor) -> Tensor | None:
        """:return: [B, T], bool: whether a frame is inside; None if all are"""
        axis = self.dim_of(source, self.axis, option="axis")
        mask = mask_of_window(axis, self.start, self.window_start, self.window_size)
        lengths = self._lengths(axis)
        if lengths is not None:
            inside = rf.compare_bc(frame_numbers(axis), "<", lengths, dim_order=source.dims)
            mask = inside if mask is None else rf.combine_bc(inside, "logical_and", mask)
        return mask

    def _lengths(self, axis: Dim) -> Tensor | None:
        """:return: [B]; None if all sequences are as long as there are frames in memory"""
        given = None if self.seq_len_source is None else self.seq_len_source.output
        if given is None:
            dim = axis
        elif given.dtype.startswith("int") and not self.dims_of(given, "T", option="seq_len_source", optional=True):
            return given
        else:
            dim = self.dim_of(given, "T", option="seq_len_source")
        return None if dim.size is not None else dim.get_size_tensor()
