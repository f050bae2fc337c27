"""Which sequences of a batch are still in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class SequencesLeft:
    """Sequences of a batch, whose others have left it. A is their number, B that of the whole batch."""

    indices: tf.Tensor  # (A,), int32, ascending: where each was in the whole batch
    places: tf.Tensor  # (B,), int32: where each one of the whole batch is now; A for those which have left

    def of_whole_batch(self, raw: tf.Tensor, axis: int = 0) -> tf.Tensor:
        """
        :param raw: (..., B, ...)
        :param axis: the batch
        :return: (..., A, ...)
        """
        return tf.gather(raw, self.indices, axis=axis)

    def in_whole_batch(self, raw: tf.Tensor, axis: int = 0, *, others: Any = None) -> tf.Tensor:
        """
        :param raw: (..., A, ...)
        :param axis: the batch
        :param others: (..., 1, ...): value for those which have left; None for zeros
        :return: (..., B, ...)
        """
        if others is None:
            shape = tf.shape(raw)
            others = tf.zeros(tf.concat([shape[:axis], [1], shape[axis + 1 :]], axis=0), raw.dtype)
        return tf.gather(tf.concat([raw, others], axis=axis), self.places, axis=axis)


def sequences_left(indices: tf.Tensor, num: tf.Tensor) -> SequencesLeft:
    """
    :param indices: (A,), int32, ascending: those which are left
    :param num: scalar: B, the size of the whole batch
    """
    size = tf.shape(indices)[0]
    places = tf.tensor_scatter_nd_update(tf.fill([num], size), indices[:, None], tf.range(size))
    return SequencesLeft(indices, places)
