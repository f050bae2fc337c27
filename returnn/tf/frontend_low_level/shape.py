"""Raw operations which change axes and keep values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class ShapeTFOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def concat_raw(raw_tensors: Sequence[tf.Tensor], axis: int) -> tf.Tensor:
        """:return: concatenation"""
        return tf.concat(list(raw_tensors), axis=axis)

    @staticmethod
    def stack_raw(raw_tensors: Sequence[tf.Tensor]) -> tf.Tensor:
        """:return: stacked"""
        return tf.stack(list(raw_tensors))

    @staticmethod
    def unstack_raw(raw_tensor: tf.Tensor, axis: int, number: int) -> Sequence[tf.Tensor]:
        """:return: entries"""
        return tf.unstack(raw_tensor, num=number, axis=axis)

    @staticmethod
    def split_raw(raw_tensor: tf.Tensor, sizes: Sequence[Any], axis: int) -> Sequence[tf.Tensor]:
        """:return: pieces"""
        if len(set(sizes)) == 1 and isinstance(sizes[0], int):
            return tf.split(raw_tensor, len(sizes), axis=axis)
        return tf.split(raw_tensor, tf.stack(list(sizes)), axis=axis, num=len(sizes))

    @staticmethod
    def pad_raw(raw_tensor: tf.Tensor, amounts: Sequence[tuple[Any, Any]], value: Any) -> tf.Tensor:
        """:return: padded"""
        return tf.pad(raw_tensor, [list(sides) for sides in amounts], constant_values=value)

    @staticmethod
    def flip_raw(raw_tensor: tf.Tensor, axis: int) -> tf.Tensor:
        """:return: flipped"""
        return tf.reverse(raw_tensor, axis=[axis])
