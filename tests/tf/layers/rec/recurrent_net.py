"""Networks of recurrent layers for tests: made once, run on several batches."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.tf.network import TFNetwork

tf1 = tf.compat.v1


@dataclass
class Result:
    """What came out."""

    out: dict[str, numpy.ndarray]  # by layer, with the batch axis first
    grads: dict[str, numpy.ndarray] = field(default_factory=dict)  # of the parameters, and of "data"
    params: dict[str, numpy.ndarray] = field(default_factory=dict)

    @property
    def output(self) -> numpy.ndarray:
        """Of the layer "output"."""
        return self.out["output"]


def construct(net_dict: dict[str, Any], *, n_in: int = 3, train: bool = False, **config: Any) -> TFNetwork:
    """:return: network, in the current graph"""
    vec = {"dim": 5, "shape": (5,), "time_dim_axis": None}
    extern_data = {"data": {"dim": n_in, "shape": (None, n_in)}, "vec": vec}
    options = {"extern_data": extern_data, "network": net_dict, "behavior_version": 21, **config}
    net = TFNetwork(config=Config(options), train_flag=train, eval_flag=True)
    net.construct_from_dict(net_dict)
    return net


class RecurrentNet:
    """A network with its session."""

    def __init__(
        self,
        net_dict: dict[str, Any],
        *,
        fetch: tuple[str, ...] = ("output",),
        with_grads: bool = False,
        **options: Any,
    ) -> None:
        """
        :param net_dict: the layers
        :param fetch: layers whose output is wanted
        :param with_grads: also the gradients of the sum of the first of them times `weights`
        :param options: see `construct`
        """
        with tf.Graph().as_default() as self.graph:
            self.net = construct(net_dict, **options)
            self.extern = self.net.extern_data.data
            self.lengths = self.extern["data"].dims[1].dyn_size_ext.raw_tensor
            self.batch_size = self.extern["data"].batch.dim
            outputs = {name: self.net.get_layer(name).output for name in fetch}
            self.fetches = {"out": {k: x.copy_as_batch_major().raw_tensor for k, x in outputs.items()}}
            self.variables = {p.name.split(":")[0]: p for p in self.net.get_params_list()}
            self.weights = tf1.placeholder(tf.float32, [None] * len(outputs[fetch[0]].dims))
            if with_grads:
                self.fetches["grads"] = self._gradients(self.fetches["out"][fetch[0]])
            self.initial = {name: tf1.placeholder(tf.float32, p.shape) for name, p in self.variables.items()}
            self.assign = [p.assign(self.initial[name]) for name, p in self.variables.items()]
            self.session = tf1.Session(graph=self.graph)
            self.session.run(tf1.global_variables_initializer())
        self.set_params({name: drawn(name, tuple(p.shape.as_list())) for name, p in self.variables.items()})

    def _gradients(self, output: tf.Tensor) -> dict[str, tf.Tensor]:
        is_counted = tf.not_equal(self.weights, 0)
        loss = tf.reduce_sum(tf.where(is_counted, output * self.weights, tf.zeros_like(output)))
        targets = {**self.variables, "data": self.extern["data"].raw_tensor}
        grads = zip(targets, tf1.gradients(loss, list(targets.values())), strict=True)
        return {name: tf.convert_to_tensor(grad) for name, grad in grads if grad is not None}

    def set_params(self, values: dict[str, numpy.ndarray]) -> None:
        """Sets all parameters."""
        self.params = values
        self.session.run(self.assign, feed_dict={self.initial[name]: value for name, value in values.items()})

    def run(
        self,
        data: numpy.ndarray,
        lengths: Any,
        *,
        weights: numpy.ndarray | None = None,
        vec: numpy.ndarray | None = None,
        feed: dict[Any, Any] | None = None,
    ) -> Result:
        """
        :param data: (B, T, F)
        :param lengths: (B,)
        :param weights: like the first output; 0 where a frame does not count
        :param vec: (B, 5)
        :param feed: more to feed
        """
        feed = {self.extern["data"].raw_tensor: data, self.lengths: lengths, **(feed or {})}
        if tf.is_tensor(self.batch_size):
            feed[self.batch_size] = len(data)
        if weights is not None:
            feed[self.weights] = weights
        if vec is not None:
            feed[self.extern["vec"].raw_tensor] = vec
        fetched = self.session.run(self.fetches, feed_dict=feed)
        return Result(fetched["out"], fetched.get("grads", {}), self.params)


def drawn(name: str, shape: tuple[int, ...]) -> numpy.ndarray:
    """:return: values that depend on name and shape only"""
    seed = sum(map(ord, name)) + 31 * sum(shape)
    return numpy.random.RandomState(seed).normal(0.0, 0.4, shape).astype("float32")


def sequences(n_batch: int = 3, max_len: int = 6, n_in: int = 3, seed: int = 1) -> tuple[numpy.ndarray, numpy.ndarray]:
    """:return: data (B, T, F) and lengths (B,), which differ"""
    rnd = numpy.random.RandomState(seed)
    lengths = numpy.array([max(max_len - 2 * b, 1) for b in range(n_batch)], "int32")
    return rnd.normal(0.0, 1.0, (n_batch, max_len, n_in)).astype("float32"), lengths


def weights_for(lengths: numpy.ndarray, max_len: int, n_out: int = 4) -> numpy.ndarray:
    """:return: (B, T, n_out), 0 behind the ends of the sequences"""
    weights = drawn("weights", (len(lengths), max_len, n_out))
    return weights * (numpy.arange(max_len)[None, :, None] < lengths[:, None, None])


def valid(x: numpy.ndarray, lengths: numpy.ndarray) -> numpy.ndarray:
    """:return: the frames of x (B, T, F) that are within their sequences, (N, F)"""
    return numpy.concatenate([x[b, :n] for b, n in enumerate(lengths)])
