"""Random generators whose state is a tensor, rather than part of the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

ALGORITHMS = {"philox": 1, "three-fry": 2, "three_fry": 2}  # the numbers are those of TensorFlow
_COUNTER_SIZE = {1: 2, 2: 1}  # then the key follows


def state_size(algorithm: str) -> int:
    """:return: number of int64 values of the state"""
    return _COUNTER_SIZE[ALGORITHMS[algorithm]] + 1


@dataclass(frozen=True)
class RandomState:
    """A counter and a key. The same state gives the same values."""

    state: tf.Tensor
    algorithm: str
    variable: tf.Variable | None = None  # holds the state; each use moves the counter on

    def draw(
        self,
        shape: Sequence[Any],
        *,
        distribution: str,
        dtype: str,
        mean: Any = None,
        stddev: Any = None,
        bound: Any = None,
        minval: Any = None,
        maxval: Any = None,
    ) -> tf.Tensor:
        """:return: (shape), random values, see `returnn.frontend.random`"""
        shape = tf.convert_to_tensor(shape, dtype=tf.int32)
        options = dict(zip(("key", "counter", "alg"), self._key_and_counter(shape), strict=True))
        if distribution == "uniform":
            if bound is not None:
                minval, maxval = -bound, bound
            low = 0 if minval is None else minval
            if tf.as_dtype(dtype).is_integer:
                low, high = tf.cast(low, dtype), tf.cast(maxval, dtype)
                return tf.raw_ops.StatelessRandomUniformIntV2(shape=shape, minval=low, maxval=high, **options)
            values = tf.raw_ops.StatelessRandomUniformV2(shape=shape, dtype=tf.as_dtype(dtype), **options)
            return values * ((1 if maxval is None else maxval) - low) + low
        normal = {
            "normal": tf.raw_ops.StatelessRandomNormalV2,
            "truncated_normal": tf.raw_ops.StatelessTruncatedNormalV2,
        }[distribution]
        values = normal(shape=shape, dtype=tf.as_dtype(dtype), **options)
        return values * (1 if stddev is None else stddev) + (0 if mean is None else mean)

    def _key_and_counter(self, shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, int]:
        algorithm = ALGORITHMS[self.algorithm]
        state = self.state
        if self.variable is not None:
            count = tf.cast(tf.reduce_prod(tf.cast(shape, tf.int64)), tf.uint64) * tf.constant(256, tf.uint64)
            state = tf.raw_ops.RngReadAndSkip(resource=self.variable.handle, alg=algorithm, delta=count)
        size = _COUNTER_SIZE[algorithm]
        counter = tf.bitcast(state[:size], tf.uint64)
        key = tf.bitcast(state[size : size + 1], tf.uint64)
        return key, counter, algorithm
