"""`tf.TensorArray`: what it is like, others like it, parts of it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def tensor_array_is_dynamic_size(ta: tf.TensorArray) -> bool:
    """:return: whether it grows when something is written behind its end"""
    return bool(ta.dynamic_size)


def tensor_array_is_clear_after_read(ta: tf.TensorArray) -> bool:
    """:return: whether an entry can only be read once"""
    implementation = ta._implementation
    return bool(getattr(implementation, "_clear_after_read", False))


def tensor_array_element_shape(ta: tf.TensorArray) -> tf.TensorShape:
    """:return: static shape of each entry, as far as it is known"""
    return ta.element_shape


def tensor_array_like(ta: tf.TensorArray, **kwargs: Any) -> tf.TensorArray:
    """
    :param ta: array
    :param kwargs: what is to be different, see `tf.TensorArray`
    :return: an empty array of this kind, of the same size
    """
    options: dict[str, Any] = {
        "dtype": ta.dtype,
        "size": ta.size(),
        "dynamic_size": tensor_array_is_dynamic_size(ta),
        "clear_after_read": tensor_array_is_clear_after_read(ta),
        "element_shape": tensor_array_element_shape(ta),
    }
    return tf.TensorArray(**{**options, **kwargs})


def tensor_array_stack(
    ta: tf.TensorArray, start: Any = 0, stop: Any = None, name: str = "TensorArrayStack"
) -> tf.Tensor:
    """
    :param ta: array
    :param start: index of the first entry
    :param stop: index behind the last entry; default: the size
    :param name: of the operation
    :return: (stop - start, ...): the entries
    """
    with tf.name_scope(name):
        stop = ta.size() if stop is None else stop
        return ta.gather(tf.range(start, stop))
