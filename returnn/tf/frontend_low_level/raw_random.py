"""
Random raw tensors that follow from three seeds: of the run, of the operation, and of the frame of the loop around it.

The random operations of TensorFlow that are used most keep a state in the session, which no checkpoint has: a training
that is continued in a new process would draw other values than one that just goes on. The operations here have no
state. Whoever runs the graph can feed the seed of the run, such as one for each training step (`run_seed_feed`). If
nobody does, it is another one in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import tensorflow as tf

from returnn.tf.frontend_low_level import loop_counter
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph

tf1 = tf.compat.v1

_ATTRIBUTE = "_returnn_random"
_INT64 = {"minval": tf.int64.min, "maxval": tf.int64.max, "dtype": tf.int64}
_DEFAULT_GRAPH_SEED = 87654321
_LOOP_FACTOR = 1_000_003  # odd, so that the counters of nested loops do not cancel out


@dataclass
class _GraphRandom:
    """What the random operations of one graph share."""

    run_seed: tf.Tensor  # (2,), int64
    num_ops: int = 0  # without a seed of their own


def run_seed_feed(graph: tf.Graph, numbers: Sequence[int]) -> dict[tf.Tensor, numpy.ndarray]:
    """
    :param graph: is to be run
    :param numbers: not negative, such as epoch and step. The same numbers give the same random values
    :return: to be fed; nothing if there are no random operations
    """
    shared = getattr(graph, _ATTRIBUTE, None)
    if shared is None:
        return {}
    return {shared.run_seed: _mixed(numbers)}


def operation_seed(seed: int | None = None) -> tf.Tensor:
    """
    :param seed: of the operation; None: another one for each
    :return: (2,), int64: for stateless operations
    """
    with outermost_graph():
        shared = None if tf.executing_eagerly() else _shared()
        graph_seed = None if shared is None else tf1.get_default_graph().seed
    if shared is None or not loop_counter.are_known():  # eager code, or somebody else's loop
        return tf.random.uniform([2], **_INT64, seed=seed)
    if seed is None:
        shared.num_ops += 1
    numbers = (0, shared.num_ops) if seed is None else (1, seed)
    result = tf.bitwise.bitwise_xor(
        shared.run_seed, _mixed([_DEFAULT_GRAPH_SEED if graph_seed is None else graph_seed, *numbers])
    )
    counters = [tf.cast(counter, tf.int64) for counter in loop_counter.current()]
    if not counters:
        return result
    position = counters[0]
    for counter in counters[1:]:
        position = position * _LOOP_FACTOR + counter
    return tf.bitwise.bitwise_xor(result, position)


def is_of_run_seed(op: tf.Operation) -> bool:
    """:return: whether it makes the seed of runs that are fed none: that is meant to be another one in each"""
    return (op.get_attr("seed"), op.get_attr("seed2")) == (_DEFAULT_GRAPH_SEED, 1)


def uniform(
    shape: Any, *, dtype: Any = "float32", minval: Any = 0, maxval: Any = 1, seed: int | None = None
) -> tf.Tensor:
    """:return: in [minval, maxval), for floats and integers"""
    dtype = tf.as_dtype(dtype)
    if dtype.is_integer:
        limits = {"minval": tf.cast(minval, dtype), "maxval": tf.cast(maxval, dtype)}
        return tf.raw_ops.StatelessRandomUniformInt(shape=_as_shape(shape), seed=operation_seed(seed), **limits)
    value = tf.raw_ops.StatelessRandomUniform(shape=_as_shape(shape), seed=operation_seed(seed), dtype=dtype)
    if isinstance(minval, (int, float)) and isinstance(maxval, (int, float)) and (minval, maxval) == (0, 1):
        return value
    return value * (maxval - minval) + minval


def normal(shape: Any, *, dtype: Any = "float32", truncated: bool = False, seed: int | None = None) -> tf.Tensor:
    """:return: with mean 0 and standard deviation 1; truncated: none beyond 2"""
    make = tf.raw_ops.StatelessTruncatedNormal if truncated else tf.raw_ops.StatelessRandomNormal
    return make(shape=_as_shape(shape), seed=operation_seed(seed), dtype=tf.as_dtype(dtype))


def dropped(x: tf.Tensor, *, rate: float, noise_shape: Any = None, seed: int | None = None) -> tf.Tensor:
    """
    :param x: raw tensor
    :param rate: probability with which an entry is set to 0; the others are divided by 1 - rate
    :param noise_shape: of the mask, which is broadcast; None: of x
    :param seed: of the operation
    :return: shape of x
    """
    keep = uniform(tf.shape(x) if noise_shape is None else noise_shape, seed=seed) >= rate
    return tf.where(keep, x / (1 - rate), tf.zeros_like(x))


def _shared() -> _GraphRandom:
    graph = tf1.get_default_graph()
    shared = getattr(graph, _ATTRIBUTE, None)
    if shared is None:
        limits = {name: tf.constant(_INT64[name], tf.int64) for name in ("minval", "maxval")}
        default = tf.raw_ops.RandomUniformInt(shape=tf.constant([2]), **limits, seed=_DEFAULT_GRAPH_SEED, seed2=1)
        shared = _GraphRandom(tf1.placeholder_with_default(default, [2], name="run_seed"))
        setattr(graph, _ATTRIBUTE, shared)
    return shared


def _mixed(numbers: Sequence[int]) -> numpy.ndarray:
    """:return: (2,), int64, which look random"""
    positive = [int(x) % 2**64 for x in numbers]
    return numpy.random.SeedSequence(positive).generate_state(2, "uint64").view("int64")


def _as_shape(shape: Any) -> tf.Tensor:
    return tf.convert_to_tensor(shape, dtype=None if tf.is_tensor(shape) else tf.int32)
