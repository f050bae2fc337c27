"""Windows over the frames of sequences as sequences of their own, and the like, for segmental models."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.layer_base import LayerBase
from returnn.tf.layers.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


def batch_sizes_after_windowing(sizes: tf.Tensor, window: int) -> tf.Tensor:
    """
    :param sizes: (B,), lengths of the sequences
    :param window: frames in a window, which begins at each frame
    :return: (sum of the lengths,): length of each window, which ends with its sequence
    """
    starts, ends, _ = tf.unstack(batch_indices_after_windowing(sizes, window), axis=1)
    return ends - starts


def batch_indices_after_windowing(sizes: tf.Tensor, window: int) -> tf.Tensor:
    """
    :param sizes: (B,), lengths of the sequences
    :param window: frames in a window, which begins at each frame
    :return: (sum of the lengths, 3): first frame, the frame behind the last one, index in the batch
    """
    place = tf.cast(tf.where(tf.sequence_mask(sizes)), tf.int32)
    batch, start = place[:, 0], place[:, 1]
    return tf.stack([start, tf.minimum(start + window, tf.gather(sizes, batch)), batch], axis=1)


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
        batch, time = source.get_batch_dim_tag(), self.dim_of(source, "T")
        windows = self.new_dim("windows", None, kind=Dim.Types.Batch)
        frames = self.new_dim("frames", None)
        others = [dim for dim in source.dims if dim not in (batch, time)]
        windows.dyn_size_ext = Tensor("num_windows", dims=(), dtype="int32")
        frames.dyn_size_ext = Tensor("window_lengths", dims=[windows], dtype="int32")
        self.network.dims_of_layers["windows", windows] = (batch, time, frames, self.window)
        output = Tensor(self.name, dims=[windows, frames, *others], dtype=source.dtype, sparse_dim=source.sparse_dim)
        if source.feature_dim is not None and not source.sparse:
            output.feature_dim = source.feature_dim
        if source.raw_tensor is not None:
            lengths = time.get_size_tensor().copy_compatible_to_dims([batch], unbroadcast=True).raw_tensor
            start, end, sequence = tf.unstack(batch_indices_after_windowing(lengths, self.window), axis=1)
            windows.dyn_size_ext = Tensor("num_windows", dims=(), dtype="int32", raw_tensor=tf.size(start))
            frames.dyn_size_ext = Tensor("window_lengths", dims=[windows], dtype="int32", raw_tensor=end - start)
            position = tf.minimum(start[:, None] + tf.range(tf.reduce_max(end - start))[None], end[:, None] - 1)
            index = tf.stack([tf.broadcast_to(sequence[:, None], tf.shape(position)), position], axis=-1)
            output.raw_tensor = tf.gather_nd(source.copy_transpose([batch, time, *others]).raw_tensor, index)
        return output


class UnsegmentInputLayer(_ConcatInputLayer):
    """
    What was computed for windows, back at the frames where they begin; see `SegmentInputLayer`.

    Source [N, W, F], output [B, T, window * F], 0 where a window is shorter.
    """

    layer_class = "unsegment_input"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, window * F]"""
        windows, frames, others, (batch, time, window) = self._dims(source)
        size = window
        for dim in others:
            size *= dim.dimension
        feature = self.output_feature_dim(size)
        output = Tensor(self.name, dims=[batch, time, feature], dtype=source.dtype)
        output.feature_dim = feature
        if source.raw_tensor is not None:
            raw = source.copy_masked(0.0, dims=[frames]).copy_transpose([windows, frames, *others]).raw_tensor
            missing = window - tf.shape(raw)[1]
            padded = tf.pad(raw, [[0, 0], [0, missing], *[[0, 0]] * len(others)])
            lengths = time.get_size_tensor().copy_compatible_to_dims([batch], unbroadcast=True).raw_tensor
            place = tf.cast(tf.where(tf.sequence_mask(lengths, time.get_dim_value())), tf.int32)
            shape = [batch.get_dim_value(), time.get_dim_value(), size]
            output.raw_tensor = tf.scatter_nd(place, tf.reshape(padded, [-1, size]), shape)
        return output

    def _dims(self, source: Tensor) -> tuple[Dim, Dim, list[Dim], tuple[Dim, Dim, int]]:
        store = self.network.dims_of_layers
        known = next((dim for dim in source.dims if ("windows", dim) in store), None)
        if known is None:
            raise ConfigError(f"{self.where()}: the source {source} does not come from a layer 'segment_input'.")
        batch, time, frames, window = store["windows", known]
        others = [dim for dim in source.dims if dim not in (known, frames)]
        if frames not in source.dims or any(dim.dimension is None for dim in others):
            raise ConfigError(f"{self.where()}: the source has to have the frames of the windows, not {source}.")
        return known, frames, others, (batch, time, window)


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
        output = source.copy()
        output.feature_dim_axis = output.dims.index(time)
        output.time_dim_axis = output.dims.index(feature)
        return output


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
    plain = labels.copy()
    plain.sparse_dim = None
    plain = rf.cast(plain, "int32")
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
