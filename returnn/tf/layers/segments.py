"""
Segmental models: scores of segments, which begin in a frame, have up to `window` frames, and a class.

`W` is the dim of the possible lengths 1, 2, ..., window.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.layer_base import LayerBase
from returnn.tf.layers.segment_windows import labels_of, remaining_frames
from returnn.tf.layers.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class ClassesToSegmentsLayer(_ConcatInputLayer):
    """
    For each frame, which segment begins there, as long as its label does not change: one-hot over lengths and classes.

    Source [B, T], labels of frames; output [B, T, W * num_classes].
    """

    layer_class = "classes_to_segments"

    def __init__(self, num_classes: int, window: int = 15, **kwargs: Any) -> None:
        """
        :param num_classes: number of labels
        :param window: largest length
        """
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.window = window

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, T, W * num_classes]"""
        labels = labels_of(self, source)
        length = self.new_dim("lengths", self.window, auto_generated=False)
        classes = self.new_dim("classes", self.num_classes, auto_generated=False)
        index = rf.cast(remaining_frames(self, labels, self.window), "int32") - 1
        one_hot = rf.combine_bc(
            rf.one_hot(rf.set_sparse_dim(index, length)), "*", rf.one_hot(rf.set_sparse_dim(labels, classes))
        )
        output, feature = rf.merge_dims(one_hot, dims=[length, classes])
        output.feature_dim = feature
        return output


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
        output = rf.softmax(scores, axis=length, use_mask=False)
        output.feature_dim = length
        return output


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
        output.feature_dim = length
        return output


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
        output.feature_dim = both
        return output


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

    Source [B, T, W * num_classes], log scores of the segments that begin in each frame; output [B, T], the class of the
    segment that a frame is in.
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
            lengths = time.get_size_tensor().copy_compatible_to_dims([batch], unbroadcast=True).raw_tensor
            output.raw_tensor = _best_segments(raw, lengths, self.window, self.num_classes)
        return output


def _best_segments(scores: tf.Tensor, lengths: tf.Tensor, window: int, num_classes: int) -> tf.Tensor:
    """
    :param scores: (T, B, window * classes), of the segments that begin in each frame
    :param lengths: (B,)
    :return: (T, B), class in each frame
    """
    time, batch = tf.unstack(tf.shape(scores)[:2])
    by_length = tf.reshape(scores, [time, batch, window, num_classes])
    best_class = tf.argmax(by_length, axis=-1, output_type=tf.int32)
    score = tf.reduce_max(by_length, axis=-1)
    frame = tf.range(time)
    fits = frame[:, None, None] + tf.range(1, window + 1) <= lengths[None, :, None]
    score = tf.where(fits, score, -1e30)

    def backward(state: tuple[tf.Tensor, tf.Tensor], x: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        future, _ = state  # (B, window): the best score from each of the next frames on
        segment_score, t = x
        total = segment_score + future
        choice = tf.argmax(total, axis=1, output_type=tf.int32)
        best = tf.where(t < lengths, tf.reduce_max(total, axis=1), 0.0)
        return tf.concat([best[:, None], future[:, :-1]], axis=1), choice

    first = (tf.zeros([batch, window], scores.dtype), tf.zeros([batch], tf.int32))
    first[0].set_shape([None, window])
    _, choice = tf.scan(backward, (score, frame), initializer=first, reverse=True)

    def forward(state: tuple[tf.Tensor, tf.Tensor], x: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        left, label = state
        length_index, classes = x
        begins = tf.equal(left, 0)
        label = tf.where(begins, tf.gather(classes, length_index, batch_dims=1), label)
        return tf.where(begins, length_index, left - 1), label

    start = (tf.zeros([batch], tf.int32), tf.zeros([batch], tf.int32))
    _, labels = tf.scan(forward, (choice, best_class), initializer=start)
    return labels
