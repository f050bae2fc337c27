"""Windows over the frames of sequences as sequences of their own, and the like, for segmental models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.values.length import raw_lengths
from returnn.util.errors import ConfigError


def batch_sizes_after_windowing(sizes: tf.Tensor, window: int) -> tf.Tensor:
    """
    :param sizes: (B,), lengths of the sequences
    :param window: frames in a window, which begins at each frame
    :return: (sum of the lengths,): length of each window, which ends with its sequence
    """
    _, starts, ends = tf.unstack(batch_indices_after_windowing(sizes, window), axis=1)
    return ends - starts


def batch_indices_after_windowing(sizes: tf.Tensor, window: int) -> tf.Tensor:
    """
    :param sizes: (B,), lengths of the sequences
    :param window: frames in a window, which begins at each frame
    :return: (sum of the lengths, 3): index in the batch, first frame, the frame behind the last one
    """
    place = tf.cast(tf.where(tf.sequence_mask(sizes)), tf.int32)
    batch, start = place[:, 0], place[:, 1]
    return tf.stack([batch, start, tf.minimum(start + window, tf.gather(sizes, batch))], axis=1)


@dataclass(frozen=True)
class Windows:
    """Dims of windows that begin at each frame, with fewer frames at the end of the sequence."""

    batch: Dim  # of the sequences
    time: Dim
    windows: Dim  # those of the first sequence, then of the second, ...
    frames: Dim
    size: int  # largest number of frames

    @classmethod
    def of(cls, layer: LayerBase, source: Tensor, size: int) -> Windows:
        """
        :param layer: has the dims
        :param source: [B, T, ...]
        :param size: largest number of frames
        """
        windows = layer.new_dim("windows", None, kind=Dim.Types.Batch)
        self = cls(source.get_batch_dim_tag(), layer.dim_of(source, "T"), windows, layer.new_dim("frames", None), size)
        windows.dyn_size_ext = Tensor("num_windows", dims=(), dtype="int32")
        self.frames.dyn_size_ext = Tensor("window_lengths", dims=[windows], dtype="int32")
        layer.network.dims_of_layers.note(windows, self)
        return self

    def cut(self, source: Tensor) -> Tensor:
        """
        :param source: [B, T, ...]
        :return: [windows, frames, ...]
        """
        others = [dim for dim in source.dims if dim not in (self.batch, self.time)]
        dims = [self.windows, self.frames, *others]
        output = Tensor(source.name, dims=dims, dtype=source.dtype, sparse_dim=source.sparse_dim)
        if source.feature_dim is not None and not source.sparse:
            output = output.copy_with_roles(feature_dim=source.feature_dim)
        if source.raw_tensor is not None:
            sequence, start, end = self._indices()
            self.windows.dyn_size_ext = Tensor("num_windows", dims=(), dtype="int32", raw_tensor=tf.size(start))
            lengths = Tensor("window_lengths", dims=[self.windows], dtype="int32", raw_tensor=end - start)
            self.frames.dyn_size_ext = lengths
            position = tf.minimum(start[:, None] + tf.range(tf.reduce_max(end - start))[None], end[:, None] - 1)
            index = tf.stack([tf.broadcast_to(sequence[:, None], tf.shape(position)), position], axis=-1)
            output.raw_tensor = tf.gather_nd(source.copy_transpose([self.batch, self.time, *others]).raw_tensor, index)
        return output

    def by_last_frame(self, source: Tensor, dims: Sequence[Dim]) -> tf.Tensor:
        """
        :param source: [windows, frames, dims...]
        :return: raw (batch, time, size, dims...): for each frame, what the windows have that this is a frame of; at
            first the window which begins here, where this is the first frame, then the one which begins one frame
            before. 0 where there is no such window
        """
        raw = source.copy_masked(0.0, dims=[self.frames]).copy_transpose([self.windows, self.frames, *dims]).raw_tensor
        sequence, start, end = self._indices()
        number = tf.range(tf.shape(raw)[1])
        time = tf.minimum(start[:, None] + number, end[:, None] - 1)
        grid = tf.shape(time)
        index = [tf.broadcast_to(sequence[:, None], grid), time, tf.broadcast_to(number, grid)]
        shape = [self.batch.get_dim_value(), self.time.get_dim_value(), self.size, *(dim.dimension for dim in dims)]
        return tf.scatter_nd(tf.stack(index, axis=-1), raw, shape)

    def _indices(self) -> list[tf.Tensor]:
        return tf.unstack(batch_indices_after_windowing(raw_lengths(self.time, self.batch), self.size), axis=1)


class SegmentInputLayer(_ConcatInputLayer):
    """
    Windows which begin at each frame, as sequences of their own: those of the first sequence, then of the second, ...

    Source [B, T, F], output [N, W, F], with N the sum of the lengths.
    """

    layer_class = "segment_input"

    def __init__(self, window: int = 15, **kwargs: Any) -> None:
        """
        :param window: frames in a window; fewer at the end of the sequence
        """
        super().__init__(**kwargs)
        self.window = window

    def compute(self, source: Tensor) -> Tensor:
        """:return: [N, W, F]"""
        return Windows.of(self, source, self.window).cut(source)


class UnsegmentInputLayer(_ConcatInputLayer):
    """
    What was computed for windows, see `SegmentInputLayer`, at the frames where they end.

    Source [N, W, F], output [B, T, window * F]: at each frame, all windows that end there. At first the one which has
    this frame alone, then the one which begins one frame before, and so on. 0 where the sequence begins later.
    """

    layer_class = "unsegment_input"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, window * F]"""
        windows = self._windows_of(source)
        others = [dim for dim in source.dims if dim not in (windows.windows, windows.frames)]
        if windows.frames not in source.dims or any(dim.dimension is None for dim in others):
            raise ConfigError(f"{self.where()}: the source has to have the frames of the windows, not {source}.")
        feature = self.output_feature_dim(windows.size * math.prod(dim.size for dim in others))
        output = Tensor(self.name, dims=[windows.batch, windows.time, feature], dtype=source.dtype, feature_dim=feature)
        if source.raw_tensor is not None:
            raw = windows.by_last_frame(source, others)
            output.raw_tensor = tf.reshape(raw, tf.concat([tf.shape(raw)[:2], [feature.dimension]], axis=0))
        return output

    def _windows_of(self, source: Tensor) -> Windows:
        for dim in source.dims:
            windows = self.network.dims_of_layers.find(dim, Windows)
            if windows is not None:
                return windows
        raise ConfigError(f"{self.where()}: the source {source} does not come from a layer 'segment_input'.")


class FillUnusedMemoryLayer(_ConcatInputLayer):
    """The source, with a number in all frames beyond the end of their sequence."""

    layer_class = "fill_unused"

    def __init__(self, fill_value: float = 0.0, **kwargs: Any) -> None:
        """
        :param fill_value: the number
        """
        super().__init__(**kwargs)
        self.fill_value = fill_value

    def compute(self, source: Tensor) -> Tensor:
        """:return: {...}: dims of the source"""
        return source.copy() if source.raw_tensor is None else source.copy_masked(self.fill_value)


class SwapTimeFeatureLayer(_ConcatInputLayer):
    """The source, of which the feature dim is the time dim now, and the other way round."""

    layer_class = "swap_time_feature"

    def compute(self, source: Tensor) -> Tensor:
        """:return: {...}: dims of the source"""
        time, feature = self.dim_of(source, "T"), self.feature_dim_of(source)
        return source.copy_with_roles(feature_dim=time, time_dim=feature)


class FlattenTimeLayer(_ConcatInputLayer):
    """
    All frames of all sequences, one behind the other, without padding.

    Source [B, T, F], output [N, F], with N the sum of the lengths.
    """

    layer_class = "flatten_time"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [N, F]"""
        batch, time = source.get_batch_dim_tag(), self.dim_of(source, "T")
        packed = self.new_dim("frames", None, kind=Dim.Types.Batch)
        output, _ = rf.pack_padded(source, dims=[batch, time], out_dim=packed)
        return output


def remaining_frames(layer: LayerBase, labels: Tensor, window: int) -> Tensor:
    """
    :param layer: for its dims
    :param labels: [B, T]
    :param window: largest number
    :return: [B, T], float: how many frames have the same label, from each frame on, without a gap
    """
    time = layer.dim_of(labels, "T")
    dtype = rf.get_default_float_dtype()
    plain = rf.cast(rf.set_sparse_dim(labels, None), "int32")
    inside = (
        rf.cast(rf.sequence_mask(time), "int32")
        if time.need_masking()
        else rf.full(dims=[time], fill_value=1, dtype="int32")
    )
    alive = rf.cast(rf.combine_bc(plain * 0, "+", inside), dtype)
    total = alive
    for step in range(1, window):
        ahead = rf.shift_left(plain, axis=time, pad_value=-1, amount=step)
        alive = alive * rf.cast(rf.compare_bc(plain, "==", ahead), dtype)
        total = total + alive
    return total


def labels_of(layer: LayerBase, source: Tensor) -> Tensor:
    """:raises ConfigError: if the source is not sparse"""
    if not source.sparse:
        raise ConfigError(f"{layer.where()}: the source has to have labels, not {source}.")
    return source
