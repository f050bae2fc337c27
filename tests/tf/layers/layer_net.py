"""Networks of layers for tests: made once, run on several batches. Frames beyond the ends of sequences hold NaN."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tf.network import TFNetwork
from returnn.util.behavior_version import BehaviorVersion

tf1 = tf.compat.v1
EXTERN_DATA = {
    "data": {"shape": (None, 6), "dim": 6},
    "image": {"shape": (None, 4, 6), "dim": 6},
    "ids": {"shape": (None,), "dim": 5, "sparse": True},
    "vec": {"shape": (6,), "dim": 6, "time_dim_axis": None},
    "number": {"shape": (), "dtype": "int32", "dim": None, "sparse": False},
    "sizes": {"shape": (2,), "dtype": "int32", "dim": 2, "sparse": False, "time_dim_axis": None},
}
WITH_TIME = ("data", "image", "ids")
LENGTHS = (5, 3, 4)
INVALID = {"float32": numpy.nan, "int32": 4}


def construct(
    net_dict: dict[str, Any],
    *,
    behavior_version: int = 30,
    time_major: bool = False,
    float_dtype: str = "float32",
    **options: Any,
) -> TFNetwork:
    """:return: network, in the current graph"""
    BehaviorVersion.reset()
    BehaviorVersion.set(behavior_version)
    extern_data = {key: _extern_data(key, time_major, float_dtype) for key in EXTERN_DATA}
    config = Config({"extern_data": extern_data, "network": net_dict, "behavior_version": behavior_version})
    net = TFNetwork(config=config, eval_flag=True, **options)
    net.construct_from_dict(net_dict)
    return net


def _extern_data(key: str, time_major: bool, float_dtype: str) -> dict[str, Any]:
    desc = {**EXTERN_DATA[key]}
    if not desc.get("sparse"):
        desc.setdefault("dtype", float_dtype)
    if time_major and key in WITH_TIME:
        desc.update(time_dim_axis=0, batch_dim_axis=1)
    return desc


class LayerNet:
    """A network with its session."""

    def __init__(self, net_dict: dict[str, Any], fetch: tuple[str, ...] = (), **options: Any) -> None:
        """
        :param net_dict: the layers; "output" can be missing
        :param fetch: layers whose output is wanted; default: all
        :param options: see `construct`
        """
        net_dict = {name: {**desc, "is_output_layer": True} for name, desc in net_dict.items()}
        net_dict.setdefault("output", {"class": "copy", "from": "data"})
        with tf.Graph().as_default() as self.graph, rf.backend_ctx("tf"):
            tf1.set_random_seed(1)
            self.net = construct(net_dict, **options)
            self.outputs = {name: self.net.get_layer(name).output for name in fetch or net_dict}
            self.fetches = {name: _valid(out) for name, out in self.outputs.items()}
            self.session = tf1.Session(graph=self.graph)
            self.session.run(tf1.global_variables_initializer())

    def run(self, batch: dict[str, numpy.ndarray], lengths: Any = LENGTHS) -> dict[str, numpy.ndarray]:
        """
        :param batch: by key of the data
        :param lengths: of all data that has a time dim
        :return: outputs by layer, with the batch axis first, 0 beyond the end of sequences
        """
        feed: dict[Any, Any] = {}
        for key, value in batch.items():
            feed[self.net.extern_data.data[key].raw_tensor] = value
        with self.graph.as_default():
            for data in map(self.net.extern_data.data.get, batch):
                feed.update((dim.dyn_size, lengths) for dim in data.dims if dim.is_dynamic_seq_length())
                feed[data.batch.dim] = len(batch["vec"])
        return self.session.run(self.fetches, feed_dict=feed)


def batch_of(lengths: Any = LENGTHS, *, padding: Any = None, seed: int = 1) -> dict[str, numpy.ndarray]:
    """
    :param lengths: in frames
    :param padding: dtype -> value beyond the ends of sequences; default: NaN for floats
    :param seed: for the values
    """
    random = numpy.random.RandomState(seed)
    b, t = len(lengths), max(lengths)
    batch = {
        "data": random.normal(size=(b, t, 6)).astype("float32"),
        "image": random.normal(size=(b, t, 4, 6)).astype("float32"),
        "ids": random.randint(0, 5, size=(b, t)).astype("int32"),
        "vec": random.normal(size=(b, 6)).astype("float32"),
        "number": numpy.array([1, 2, 0, 3][:b], dtype="int32"),
        "sizes": numpy.array([[size, 1] for size in lengths], dtype="int32"),
    }
    padding = INVALID if padding is None else padding
    for key in WITH_TIME:
        for value, length in zip(batch[key], lengths, strict=True):
            value[length:] = padding[batch[key].dtype.name]
    return batch


def one_of(batch: dict[str, numpy.ndarray], index: int) -> dict[str, numpy.ndarray]:
    """:return: batch of a single sequence"""
    length = LENGTHS[index]
    one = {key: value[index : index + 1] for key, value in batch.items()}
    return {key: value[:, :length] if key in WITH_TIME else value for key, value in one.items()}


def _valid(out: Any) -> Any:
    out = out.copy_as_batch_major() if out.have_batch_axis() else out
    zero = False if out.dtype == "bool" else 0
    return out.copy_masked(zero, dims=[dim for dim in out.dims if _can_mask(dim, out)]).raw_tensor


def _can_mask(dim: Any, out: Any) -> bool:
    return dim.need_masking() and all(other in out.dims for other in dim.get_size_tensor().dims)
