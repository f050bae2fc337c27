"""
Segmental models: scores of segments, which end in a frame, have up to `window` frames, and a class.

`W` is the dim of the possible lengths 1, 2, ..., window.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.segmental.segment_windows import Windows, labels_of, remaining_frames
from returnn.tf.layers.values.length import raw_lengths
from returnn.util.errors import ConfigError

_NEVER = -1e30  # score of what is not possible


class ClassesToSegmentsLayer(_ConcatInputLayer):
    """
    For each position in the windows of `SegmentInputLayer`, how often each label is there up to this position: a
    relative frequency, as target for what a segment is that ends there.

    Source [B, T], labels of frames; output [N, W, num_classes], with N the sum of the lengths.
    """

    layer_class = "classes_to_segments"

    def __init__(self, num_classes: int, window: int = 15, **kwargs: Any) -> None:
        """
        :param num_classes: number of labels
        :param window: frames in a window; fewer at the end of the sequence
        """
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.window = window

    def compute(self, source: Tensor) -> Tensor:
        """:return: [N, W, num_classes]"""
        windows = Windows.of(self, source, self.window)
        classes = self.new_dim("classes", self.num_classes, kind=Dim.Types.Feature)
        labels = rf.set_sparse_dim(windows.cut(labels_of(self, source)), classes)
        counts = rf.cumsum(rf.one_hot(labels), spatial_dim=windows.frames)
        number = rf.cast(rf.range_over_dim(windows.frames), counts.dtype) + 1.0
        output = counts / number
        return output.copy_with_roles(feature_dim=classes)


class ClassesToLengthDistributionLayer(_ConcatInputLayer):
    """
    For each frame, a distribution over the length of the segment that begins there: `softmax(-scale * |l - length|)`.

    Source [B, T], labels of frames; output [B, T, W].
    """

    layer_class = "classes_to_length_distribution"

    def __init__(self, window: int = 15, scale: float = 1.0, **kwargs: Any) -> None:
        """
        :param window: largest length
        :param scale: how sharp it is
        """
        super().__init__(**kwargs)
        self.window = window
        self.scale = scale

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, W]"""
        length = self.output_feature_dim(self.window)
        remaining = remaining_frames(self, labels_of(self, source), self.window)
        candidates = rf.cast(rf.range_over_dim(length), rf.get_default_float_dtype()) + 1.0
        scores = rf.abs(rf.combine_bc(remaining, "-", candidates)) * -self.scale
        return rf.softmax(scores, axis=length, use_mask=False).copy_with_roles(feature_dim=length)


class ClassesToLengthDistributionGlobalLayer(_ConcatInputLayer):
    """
    How often which length of segments is in this batch, as a distribution.

    Source [B, T], labels of frames; output [T, W], the same for all frames.
    """

    layer_class = "classes_to_length_distribution_global"

    def __init__(
        self,
        window: int = 15,
        weight_falloff: float = 1.0,
        target_smoothing: float | None = None,
        min_length: int = 1,
        broadcast_axis: str | Dim = "time",
        **kwargs: Any,
    ) -> None:
        """
        :param window: largest length
        :param weight_falloff: the count of length l is multiplied by `weight_falloff ** (l - 1)`
        :param target_smoothing: this part of the mass is spread over all lengths
        :param min_length: shorter segments do not count
        :param broadcast_axis: dim of the source that the output gets
        """
        super().__init__(**kwargs)
        self.window = window
        self.weight_falloff = weight_falloff
        self.target_smoothing = target_smoothing
        self.min_length = min_length
        self.broadcast_axis = broadcast_axis

    def compute(self, source: Tensor) -> Tensor:
        """:return: [T, W]"""
        labels = labels_of(self, source)
        length = self.output_feature_dim(self.window)
        index = rf.set_sparse_dim(rf.cast(remaining_frames(self, labels, self.window), "int32") - 1, length)
        counts = rf.reduce_sum(rf.one_hot(index), axis=labels.dims)
        weights = [self.weight_falloff**i if i + 1 >= self.min_length else 0.0 for i in range(self.window)]
        counts = counts * rf.convert_to_tensor(weights, dims=[length], dtype=counts.dtype) + 1e-10
        output = counts / rf.reduce_sum(counts, axis=length)
        if self.target_smoothing:
            output = output * (1.0 - self.target_smoothing) + self.target_smoothing / self.window
        output = rf.expand_dim(output, self.dim_of(source, self.broadcast_axis, option="broadcast_axis"))
        return output.copy_with_roles(feature_dim=length)


class ApplyLengthDistributionLayer(LayerBase):
    """
    Scores of segments, times the probability of their length.

    Sources: scores [..., W], or [..., W * C] with the classes innermost; distribution [..., W]. Output: the dims of the
    scores.
    """

    layer_class = "apply_length_distribution"

    def __init__(self, length_model_scale: float = 1.0, **kwargs: Any) -> None:
        """
        :param length_model_scale: exponent of the distribution
        """
        super().__init__(**kwargs)
        self.length_model_scale = length_model_scale

    def compute(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """:return: {...}: dims of the scores"""
        both, length = self.feature_dim_of(scores), self.feature_dim_of(lengths)
        weights = lengths**self.length_model_scale
        if both == length:
            return rf.combine_bc(scores, "*", weights)
        if both.dimension is None or both.dimension % length.dimension:
            raise ConfigError(f"{self.where()}: {scores} does not have the lengths of {lengths}.")
        classes = self.new_dim("classes", both.dimension // length.dimension, auto_generated=False)
        split = rf.split_dims(scores, axis=both, dims=[length, classes])
        output, _ = rf.merge_dims(rf.combine_bc(split, "*", weights), dims=[length, classes], out_dim=both)
        return output.copy_with_roles(feature_dim=both)


class NormalizeLengthScoresLayer(LayerBase):
    """
    Scores of lengths, divided by their sum over all lengths.

    Source [..., W], output the same.
    """

    layer_class = "normalize_length_scores"

    def compute(self, scores: Tensor) -> Tensor:
        """:return: {..., W}"""
        total = rf.reduce_sum(scores, axis=self.feature_dim_of(scores), use_mask=False)
        return scores / rf.maximum(total, 1e-20)


class SegmentAlignmentLayer(_ConcatInputLayer):
    """
    The best sequence of segments, by dynamic programming.

    Source [B, T, W * num_classes], log scores of the segments that end in each frame, as `UnsegmentInputLayer` gives
    them; output [B, T], the class of the segment that a frame is in.
    """

    layer_class = "segment_alignment"

    def __init__(self, num_classes: int, window: int = 15, **kwargs: Any) -> None:
        """
        :param num_classes: number of classes
        :param window: largest length
        """
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.window = window

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T], sparse"""
        feature = self.feature_dim_of(source)
        if feature.dimension != self.window * self.num_classes:
            raise ConfigError(f"{self.where()}: {self.window} * {self.num_classes} scores are expected, got {source}.")
        batch, time = source.get_batch_dim_tag(), self.dim_of(source, "T")
        classes = self.new_dim("classes", self.num_classes, kind=Dim.Types.Feature)
        output = Tensor(self.name, dims=[time, batch], dtype="int32", sparse_dim=classes)
        if source.raw_tensor is not None:
            raw = source.copy_transpose([time, batch, feature]).raw_tensor
            lengths = raw_lengths(time, batch)
            output.raw_tensor = _best_segments(raw, lengths, self.window, self.num_classes)
        return output


def _best_segments(scores: tf.Tensor, lengths: tf.Tensor, window: int, num_classes: int) -> tf.Tensor:
    """
    :param scores: (T, B, window * classes), of the segments that end in each frame
    :param lengths: (B,)
    :return: (T, B), class in each frame
    """
    time, batch = tf.unstack(tf.shape(scores)[:2])
    by_length = tf.reshape(scores, [time, batch, window, num_classes])
    best_class = tf.argmax(by_length, axis=-1, output_type=tf.int32)

    def forward(state: tuple[tf.Tensor, tf.Tensor], score: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        past, _ = state  # (B, window): the best score up to each of the frames before
        total = score + past
        best = tf.reduce_max(total, axis=1, keepdims=True)
        return tf.concat([best, past[:, :-1]], axis=1), tf.argmax(total, axis=1, output_type=tf.int32)

    nothing_yet = tf.one_hot(tf.zeros([batch], tf.int32), window, on_value=0.0, off_value=_NEVER, dtype=scores.dtype)
    first = (nothing_yet, tf.zeros([batch], tf.int32))
    _, choice = tf.scan(forward, tf.reduce_max(by_length, axis=-1), initializer=first)

    def backward(state: tuple[tf.Tensor, tf.Tensor], x: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        left, label = state
        length_index, classes, t = x
        ends = tf.equal(left, 0) & (t < lengths)
        label = tf.where(ends, tf.gather(classes, length_index, batch_dims=1), label)
        return tf.where(ends, length_index, tf.maximum(left - 1, 0)), label

    start = (tf.zeros([batch], tf.int32), tf.zeros([batch], tf.int32))
    _, labels = tf.scan(backward, (choice, best_class, tf.range(time)), initializer=start, reverse=True)
    return labels
