"""Seeds and generators of random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.util.cached import CollectionKeys

tf1 = tf.compat.v1

_GENERATOR = "returnn_random_generator"


def get_random_seed() -> int:
    """:return: a seed: with `tf.compat.v1.set_random_seed`, the same ones in each equal graph"""
    graph_seed, op_seed = tf1.get_seed(None)
    if op_seed is None:
        return len(tf1.get_default_graph().get_operations())
    return int(((graph_seed or 0) * 1000003 + op_seed) % (2**31 - 1))


def get_global_random_generator(*, create: bool = True) -> tf.random.Generator | None:
    """
    :param create: make it if it does not exist
    :return: one generator for each graph, whose state is a variable
    """
    with outermost_graph() as graph:
        known = graph.get_collection_ref(_GENERATOR)
        if not known and create:
            with tf1.variable_scope("global_random_generator", use_resource=True):
                generator = tf.random.Generator.from_seed(get_random_seed(), alg="philox")
            graph.add_to_collection(tf1.GraphKeys.GLOBAL_VARIABLES, generator.state)
            graph.add_to_collection(CollectionKeys.STATE_VARS, generator.state)
            known.append(generator)
    return known[0] if known else None


@dataclass(frozen=True, eq=False)
class StatelessRandomSeed:
    """What random values of some shape come from: as often as they are computed from it, they are the same."""

    _shape: Any  # static, or raw (N,)
    _key: tf.Tensor  # (1,), uint64
    _counter: tf.Tensor  # (2,), uint64
    _algorithm: int

    @classmethod
    def create(cls, *, shape: Any, generator: tf.random.Generator | None = None) -> StatelessRandomSeed:
        """
        :param shape: of the values
        :param generator: goes on when the seed is computed; default: the one of the graph
        """
        generator = generator or get_global_random_generator()
        assert generator is not None
        seed = generator.make_seeds(1)[:, 0]
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
        return cls(shape, key, counter, 1)

    def normal(self, mean: float = 0.0, stddev: float = 1.0, dtype: Any = tf.float32) -> tf.Tensor:
        """:return: (shape): normal distribution"""
        dtype = tf.as_dtype(dtype)
        values = tf.raw_ops.StatelessRandomNormalV2(**self._state(), dtype=dtype)
        return values * tf.cast(stddev, dtype) + tf.cast(mean, dtype)

    def uniform(self, *, minval: Any = 0, maxval: Any = None, dtype: Any = tf.float32) -> tf.Tensor:
        """:return: (shape): from `minval` on, below `maxval` (default: 1 for floating point numbers)"""
        dtype = tf.as_dtype(dtype)
        if dtype.is_integer:
            assert maxval is not None, "integers need a maxval"
            low, high = tf.cast(minval, dtype), tf.cast(maxval, dtype)
            return tf.raw_ops.StatelessRandomUniformIntV2(**self._state(), minval=low, maxval=high)
        maxval = 1 if maxval is None else maxval
        values = tf.raw_ops.StatelessRandomUniformV2(**self._state(), dtype=dtype)
        return values * tf.cast(maxval - minval, dtype) + tf.cast(minval, dtype)

    def _state(self) -> dict[str, Any]:
        return {"shape": self._shape, "key": self._key, "counter": self._counter, "alg": self._algorithm}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StatelessRandomSeed):
            return False
        return self._shape is other._shape and self._key is other._key and self._counter is other._counter

    def __hash__(self) -> int:
        return id(self._key)
