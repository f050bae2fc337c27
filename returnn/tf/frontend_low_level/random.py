"""
Random values in TensorFlow graphs.

All come from stateless operations; `raw_random` says where their seeds come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from returnn.frontend._ops.random_source import RandomSource, seed_number
from returnn.tf.frontend_low_level import raw_random
from returnn.tf.frontend_low_level.device import on_device
from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.util.errors import UserError

_PHILOX = 1  # as TensorFlow's operations with a key count the algorithms


class RandomTFOps:
    """The raw operations of `returnn.frontend._backends.required`."""

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Sets the seed of the current graph; it counts for operations which are made from now on."""
        tf.compat.v1.set_random_seed(seed)

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """:return: nothing: values follow from seed and step, or from the session, which does not tell its state"""
        return {}

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """Nothing to do, see `get_random_state`."""

    @staticmethod
    def random_uniform_raw(shape: Sequence[Any], dtype: str, source: RandomSource, device: str | None) -> tf.Tensor:
        """:return: floats in [0, 1)"""
        with on_device(device):
            return tf.raw_ops.StatelessRandomUniformV2(shape=_shape(shape), dtype=tf.as_dtype(dtype), **_key(source))

    @staticmethod
    def dropout_raw(raw_tensor: tf.Tensor, rate: float, scale: float) -> tf.Tensor | None:
        """:return: by the native kernel, if there is one"""
        operations = get_operations()
        if operations is None:
            return None
        inputs = {"x": tf.reshape(raw_tensor, [-1]), "seed": _seed_of_run(None)}
        y = tf.reshape(operations.call("dropout", inputs, rate=rate, scale=scale)["y"], tf.shape(raw_tensor))
        return tf.ensure_shape(y, raw_tensor.shape)

    @staticmethod
    def random_ints_raw(
        shape: Sequence[Any], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> tf.Tensor:
        """:return: integers in [low, high)"""
        with on_device(device):
            wide = dtype if dtype in ("int32", "int64") else "int64"
            low, high = tf.cast(low, wide), tf.cast(high, wide)
            value = tf.raw_ops.StatelessRandomUniformIntV2(shape=_shape(shape), minval=low, maxval=high, **_key(source))
            return tf.cast(value, dtype)

    @staticmethod
    def random_normal_raw(shape: Sequence[Any], dtype: str, source: RandomSource, device: str | None) -> tf.Tensor:
        """:return: normal values"""
        with on_device(device):
            return tf.raw_ops.StatelessRandomNormalV2(shape=_shape(shape), dtype=tf.as_dtype(dtype), **_key(source))

    @classmethod
    def random_truncated_raw(
        cls, shape: Sequence[Any], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> tf.Tensor:
        """:return: truncated normal values: by the inverse of the distribution function, if the range is not -2 to 2"""
        if (low, high) == (-2.0, 2.0):
            with on_device(device):
                arguments = {"shape": _shape(shape), "dtype": tf.as_dtype(dtype), **_key(source)}
                return tf.raw_ops.StatelessTruncatedNormalV2(**arguments)
        low, high = tf.cast(low, dtype), tf.cast(high, dtype)
        low_p, high_p = (0.5 * tf.math.erfc(-x / tf.sqrt(tf.cast(2, dtype))) for x in (low, high))
        uniform = low_p + cls.random_uniform_raw(shape, dtype, source, device) * (high_p - low_p)
        return tf.clip_by_value(tf.math.ndtri(uniform), low, high)


def _shape(shape: Sequence[Any]) -> tf.Tensor:
    return tf.convert_to_tensor(shape, dtype=tf.int32)


def _key(source: RandomSource) -> dict[str, Any]:
    """:return: arguments of the operations with a key: alg, key (1,), counter (n,)"""
    state = None if source.state is None else tf.convert_to_tensor(source.state)
    if source.algorithm in ("threefry", "three-fry") or (state is not None and state.shape[0] == 2):
        raise UserError(
            "random: TensorFlow has the algorithm Threefry, whose state has size 2, only where XLA compiles.\n"
            "  Use the default, 'philox'. Its state has size 3."
        )
    if state is not None:
        state = tf.bitcast(state, tf.uint64)
        return {"alg": _PHILOX, "counter": state[:-1], "key": state[-1:]}
    seed = [seed_number(source.seed), 0] if source.is_static else _seed_of_run(source.seed)
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.cast(seed, tf.int64))
    return {"alg": _PHILOX, "key": key, "counter": counter}


def _seed_of_run(seed: Any) -> Any:
    """:return: seed for an operation, (2,), another one in each run and each round of a loop"""
    return raw_random.operation_seed(None if seed is None else seed_number(seed))
