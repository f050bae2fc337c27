"""What scripts that use the toolkit as a library share: a session, and values for its placeholders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import Tensor as Data
from returnn.tf.network import ExternData, TFNetwork

tf1 = tf.compat.v1


@contextlib.contextmanager
def make_scope() -> Iterator[Any]:
    """:return: a session in a graph of its own"""
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        tf1.set_random_seed(1)
        yield session


def make_feed_dict(
    data_list: ExternData | Iterable[Data], *, n_batch: int = 3, n_time: int = 7, same_time: bool = False
) -> dict[Any, Any]:
    """
    :param data_list: with placeholders
    :param n_batch: number of sequences
    :param n_time: number of frames of the longest sequence of the first one
    :param same_time: whether all others have the same number of frames
    :return: random values for the placeholders, and lengths
    """
    if isinstance(data_list, ExternData):
        data_list = [data for _, data in data_list.get_sorted_data_items()]
    random = numpy.random.RandomState(42)
    known_sizes: dict[Any, int] = {}
    feed: dict[Any, Any] = {}
    for data in data_list:
        shape = list(data.batch_shape)
        if data.batch_dim_axis is not None:
            shape[data.batch_dim_axis] = n_batch
        for axis, size in enumerate(shape):
            if size is not None:
                continue
            lengths = data.size_placeholder[data.get_batch_axis_excluding_batch(axis)]
            if lengths.ref() not in known_sizes:
                known_sizes[lengths.ref()] = n_time
                feed[lengths] = [max(n_time - 2 * i, 1) for i in range(n_batch)]
                n_time += 0 if same_time else 1
            shape[axis] = known_sizes[lengths.ref()]
        if data.sparse:
            feed[data.placeholder] = random.randint(0, data.dim, size=shape).astype(data.dtype)
        else:
            feed[data.placeholder] = random.normal(size=shape).astype(data.dtype)
    return feed


def make_network(net_dict: dict[str, Any], extern_data: dict[str, Any] | None = None, **flags: bool) -> TFNetwork:
    """
    :param net_dict: its layers
    :param extern_data: descriptions; default: vectors of 3 features as "data", 5 labels as "classes"
    :param flags: of the network
    """
    if extern_data is None:
        targets = {"dim": 5, "sparse": True, "available_for_inference": False}
        extern_data = {"data": {"dim": 3}, "classes": targets}
    network = TFNetwork(config=Config({"extern_data": extern_data}), **flags)
    network.construct_from_dict(net_dict)
    return network


def run_network(session: Any, network: TFNetwork, fetches: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """
    :param session: whose variables are initialized
    :param network: whose data is fed
    :param fetches: for the session
    :param options: of `make_feed_dict`
    :return: what was fetched; values of the data by key
    """
    network.initialize_params(session)
    feed = make_feed_dict(network.extern_data, **options)
    fed = {x.ref(): value for x, value in feed.items()}
    values = {key: fed[data.placeholder.ref()] for key, data in network.extern_data.data.items()}
    return session.run(fetches, feed), values
