"""CTC and edit distance on raw TensorFlow tensors. Where there are native kernels, they do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels import alignments


class CtcTFOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def scan_raw(
        step: Callable[[Any, Sequence[Any]], Any], initial: Any, frames: Sequence[Any], *, reverse: bool = False
    ) -> tf.Tensor:
        """:return: states"""
        return tf.scan(step, tuple(frames), initializer=initial, reverse=reverse)

    @staticmethod
    def with_gradient_raw(
        x: tf.Tensor, compute: Callable[[Any], tuple[Any, Any]], gradient: Callable[[Any, Any], Any]
    ) -> tf.Tensor:
        """:return: value"""

        @tf.custom_gradient
        def function(x: tf.Tensor) -> Any:
            value, saved = compute(x)
            return value, lambda of_value: gradient(of_value, saved)

        return function(x)

    ctc_loss_by_kernel_raw = staticmethod(alignments.ctc_loss)
    ctc_best_path_by_kernel_raw = staticmethod(alignments.ctc_best_path)

    @staticmethod
    def edit_distance_raw(a: tf.Tensor, b: tf.Tensor, a_lengths: tf.Tensor, b_lengths: tf.Tensor) -> tf.Tensor:
        """:return: distances"""
        found = alignments.edit_distance(a, a_lengths, b, b_lengths) if _fits_int32(a) and _fits_int32(b) else None
        if found is not None:
            return found
        distance = tf.edit_distance(_sparse(a, a_lengths), _sparse(b, b_lengths), normalize=False)
        distance.set_shape(a_lengths.shape)
        return tf.cast(distance, tf.int32)


def _fits_int32(x: tf.Tensor) -> bool:
    return x.dtype not in (tf.int64, tf.uint32, tf.uint64)


def _sparse(x: tf.Tensor, lengths: tf.Tensor) -> tf.SparseTensor:
    """:return: without padding"""
    mask = tf.sequence_mask(lengths, maxlen=tf.shape(x)[1])
    return tf.SparseTensor(tf.where(mask), tf.boolean_mask(x, mask), tf.cast(tf.shape(x), tf.int64))
