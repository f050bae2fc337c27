"""What is made once and used again: tensors and queues of a graph, and results that belong to a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph

tf1 = tf.compat.v1

_GLOBAL_TENSORS = "returnn_global_tensors"


class CollectionKeys:
    """Names of collections of a graph."""

    RETURNN_LAYERS: ClassVar[str] = "_RETURNN_layers"
    RETURNN_NET_STACK: ClassVar[str] = "_RETURNN_network_stack"
    STATE_VARS: ClassVar[str] = "_RETURNN_state_vars"


class TensorCachedComputation:
    """A result that was computed from a tensor. It lives as long as the tensor."""

    def __init__(self, x: Any, key: Any) -> None:
        """
        :param x: tensor, to which the result belongs
        :param key: which result; may have tensors in it
        """
        self.x = x
        self.key = tuple(map(_hashable, key)) if isinstance(key, (list, tuple)) else _hashable(key)

    def has_cache(self) -> bool:
        """:return: whether there is a result"""
        return self.key in self._results()

    def get_cache(self) -> Any:
        """:return: the result"""
        return self._results()[self.key]

    def set_cache(self, value: Any) -> None:
        """:param value: the result"""
        self._results()[self.key] = value

    def _results(self) -> dict[Any, Any]:
        if not hasattr(self.x, "_returnn_cached_results"):
            self.x._returnn_cached_results = {}
        return self.x._returnn_cached_results  # type: ignore[no-any-return]


def _hashable(value: Any) -> Any:
    return value.ref() if isinstance(value, (tf.Tensor, tf.Variable)) else value


def get_flatten_with_seq_len_mask_cache(
    x: tf.Tensor, seq_lens: tf.Tensor, batch_dim_axis: int, time_dim_axis: int
) -> TensorCachedComputation:
    """
    :param x: (B, T, ...) or (T, B, ...)
    :param seq_lens: (B,)
    :param batch_dim_axis: of x
    :param time_dim_axis: of x
    :return: holds x without its padded frames, if that was computed
    """
    return TensorCachedComputation(x, ("flatten_with_seq_len_mask", seq_lens, batch_dim_axis, time_dim_axis))


def get_flatten_with_seq_len_mask_cache_for_data(x: Tensor) -> TensorCachedComputation:
    """:return: the same for a tensor with batch and time dim"""
    assert x.batch_dim_axis is not None
    assert x.time_dim_axis is not None
    return get_flatten_with_seq_len_mask_cache(
        x.raw_tensor, x.get_sequence_lengths(), x.batch_dim_axis, x.time_dim_axis
    )


def global_tensor(f: Callable[[], tf.Tensor], name: str) -> tf.Tensor:
    """
    :param f: makes the tensor
    :param name: of the tensor
    :return: always the same tensor of a graph, outside of all loops and conditions
    """
    with outermost_graph() as graph:
        known = graph.get_collection_ref(_GLOBAL_TENSORS)
        for known_name, tensor in known:
            if known_name == name:
                return tensor  # type: ignore[no-any-return]
        with tf1.name_scope("global_tensor/"):
            tensor = tf.identity(f(), name=name)
        known.append((name, tensor))
    return tensor


def global_queue(
    name: str,
    queue_type: Callable[..., tf.queue.QueueBase],
    capacity: int,
    dtypes: Sequence[Any],
    shapes: Any = None,
    names: Sequence[str] | None = None,
) -> tf.queue.QueueBase:
    """
    :param name: of the queue
    :param queue_type: such as `tf.queue.FIFOQueue`
    :param capacity: number of entries
    :param dtypes: of the parts of an entry
    :param shapes: of these
    :param names: of these
    :return: always the same queue of a graph
    """
    with outermost_graph() as graph:
        known = graph.get_collection_ref(_GLOBAL_TENSORS)
        for known_name, queue in known:
            if known_name == name:
                return queue  # type: ignore[no-any-return]
        with tf1.name_scope("global_queue/"):
            queue = queue_type(capacity=capacity, dtypes=dtypes, shapes=shapes, names=names, name=name)
        known.append((name, queue))
    return queue
