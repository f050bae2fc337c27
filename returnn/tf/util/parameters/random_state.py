"""Random generators whose state is a variable: a counter and a key, see `returnn.frontend.random`."""

from __future__ import annotations

import tensorflow as tf

ALGORITHMS = {"philox": 1, "three-fry": 2, "threefry": 2}  # the numbers are those of TensorFlow
_COUNTER_SIZE = {1: 2, 2: 1}  # then the key follows


def state_size(algorithm: str) -> int:
    """:return: number of int64 values of the state"""
    return _COUNTER_SIZE[ALGORITHMS[algorithm]] + 1


def read_and_move_on(state: tf.Variable, algorithm: str, num_values: tf.Tensor) -> tf.Tensor:
    """
    :param state: (state size,), int64
    :param algorithm: one of `ALGORITHMS`
    :param num_values: how many random values are to be made with it
    :return: the state. The variable has moved on, so that what is made of it next are other values
    """
    values_per_count = 256  # what TensorFlow's own generators reserve
    delta = tf.cast(num_values, tf.uint64) * tf.constant(values_per_count, tf.uint64)
    read = tf.raw_ops.RngReadAndSkip(resource=state.handle, alg=ALGORITHMS[algorithm], delta=delta)
    return read[: state_size(algorithm)]
