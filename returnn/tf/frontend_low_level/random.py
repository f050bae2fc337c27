"""Random values in TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class RandomTFOps:
    """The raw operations of `returnn.frontend._array_backend.random`."""

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Sets the seed of the current graph; it counts for operations which are made from now on."""
        tf.compat.v1.set_random_seed(seed)

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """:return: nothing: the state is part of the session"""
        return {}

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """Nothing to do: the state is part of the session."""

    @staticmethod
    def random_uniform_raw(
        shape: Sequence[Any], dtype: str, low: Any, high: Any, seed: Any, static: bool, device: str | None
    ) -> tf.Tensor:
        """:return: uniform values"""
        if static:
            return tf.random.stateless_uniform(shape, seed=_pair(seed), minval=low, maxval=high, dtype=dtype)
        return tf.random.uniform(shape, minval=low, maxval=high, dtype=dtype, seed=seed)

    @staticmethod
    def random_normal_raw(
        shape: Sequence[Any], dtype: str, seed: Any, static: bool, device: str | None, *, truncated: bool
    ) -> tf.Tensor:
        """:return: normal values"""
        if static:
            function = tf.random.stateless_truncated_normal if truncated else tf.random.stateless_normal
            return function(shape, seed=_pair(seed), dtype=dtype)
        function = tf.random.truncated_normal if truncated else tf.random.normal
        return function(shape, dtype=dtype, seed=seed)


def _pair(seed: Any) -> Any:
    if isinstance(seed, int):
        return [seed, 0]
    values = [int(x) for x in seed]
    return (values + [0])[:2]
