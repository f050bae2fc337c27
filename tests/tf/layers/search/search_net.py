"""Networks with a search for tests: made once, run on several batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.tf.network import TFNetwork
from tests.tf.layers.rec.recurrent_net import drawn

tf1 = tf.compat.v1
NUM_LABELS = 4
EOS = 1
EXTERN_DATA: dict[str, dict[str, Any]] = {
    "data": {"dim": 3, "shape": (None, 3)},
    "classes": {"dim": NUM_LABELS, "sparse": True, "shape": (None,), "available_for_inference": True},
}


def decoder(*, choice: Mapping[str, Any] | None = None, unit: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """:return: net dict: labels until EOS, by a recurrence over the labels and the mean of the input"""
    layers = {
        "emb": {"class": "linear", "from": "prev:output", "n_out": 3, "activation": None},
        "s": {"class": "linear", "from": ["emb", "prev:s", "base:ctx"], "n_out": 4, "activation": "tanh"},
        "p": {"class": "softmax", "from": "s", "n_out": NUM_LABELS},
        "output": {
            "class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0,
            "length_normalization": False, **(choice or {}),
        },
        "end": {"class": "compare", "from": "output", "value": EOS},
        **(unit or {}),
    }  # fmt: skip
    return {
        "ctx": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
        "output": {"class": "rec", "from": [], "max_seq_len": 5, "unit": layers, **options},
        "scores": {
            "class": "choice_get_beam_scores",
            "from": "output",
            "is_output_layer": True,
            "only_on_search": True,
        },
        "best": {"class": "decide", "from": "output", "is_output_layer": True, "only_on_search": True},
    }


def construct(
    net_dict: dict[str, Any], *, search: bool = True, train: bool | None = False, extern_data: Any = None, **config: Any
) -> TFNetwork:
    """:return: network, in the current graph. With `train=None`, each step says it, as in the graph of a training"""
    if train is None:
        train = tf1.placeholder_with_default(tf.constant(False), (), name="train_flag")
    options = {"extern_data": extern_data or EXTERN_DATA, "network": net_dict, "behavior_version": 21, **config}
    net = TFNetwork(config=Config(options), train_flag=train, eval_flag=True, search_flag=search)
    net.construct_from_dict(net_dict)
    return net


class SearchNet:
    """A network with its session."""

    def __init__(
        self,
        net_dict: dict[str, Any],
        *,
        fetch: Sequence[str] = ("output",),
        scale: float = 3.0,
        with_grads: bool = False,
        later: Callable[[TFNetwork], None] | None = None,
        **options: Any,
    ) -> None:
        """
        :param net_dict: the layers
        :param fetch: layers whose output is wanted
        :param scale: of parameters: with larger ones, distributions are sharper
        :param with_grads: also the gradients of the losses
        :param later: makes more layers, when the network is complete
        :param options: see `construct`
        """
        with tf.Graph().as_default() as self.graph:
            tf1.set_random_seed(1)
            self.net = construct(net_dict, **options)
            if later is not None:
                later(self.net)
            self.fetches = {}
            for name in fetch:
                out = self.net.get_layer(name).output.copy_as_batch_major()
                lengths = [dim.dyn_size for dim in out.dims[1:] if dim.size is None and dim.dyn_size is not None]
                self.fetches[name] = (out.raw_tensor, lengths)
            self.losses = {name: x.get_loss_value() for name, x in self.net.get_losses_initialized()[0].items()}
            params = self.net.get_params_list() if with_grads else []
            grads = tf1.gradients(list(self.losses.values()), params) if params else []
            names = [param.name.split(":")[0] for param in params]
            self.grads = {name: tf.convert_to_tensor(g) for name, g in zip(names, grads, strict=True) if g is not None}
            self.session = tf1.Session(graph=self.graph)
            self.session.run(tf1.global_variables_initializer())
            for param in self.net.get_params_list():
                name = param.name.split(":")[0]
                self.session.run(param.assign(scale * drawn(name, tuple(param.shape.as_list()))))

    def params(self) -> dict[str, numpy.ndarray]:
        """:return: values, by name"""
        return {p.name.split(":")[0]: self.session.run(p) for p in self.net.get_params_list()}

    def feed(self, values: Mapping[str, tuple[numpy.ndarray, Any]]) -> dict[Any, Any]:
        """:return: feed dict of data and lengths, by key"""
        feed = {}
        for key, (value, lengths) in values.items():
            data = self.net.extern_data.data[key]
            feed[data.raw_tensor] = value
            if lengths is not None:
                feed[data.get_time_dim_tag().dyn_size_ext.raw_tensor] = lengths
            if data.batch is not None and tf.is_tensor(data.batch.dim):
                feed[data.batch.dim] = len(value)
        return {key: value for key, value in feed.items() if key is not None}  # None: nobody uses it

    def run(self, fetches: Any = None, **values: tuple[numpy.ndarray, Any]) -> Any:
        """
        :param fetches: default: outputs with lengths, by layer
        :param values: data (B, ...) and lengths (B,), by key
        """
        fetches = self.fetches if fetches is None else fetches
        with self.graph.as_default():  # lengths belong to a graph
            feed = self.feed({"classes": labels(), **values})
        return self.session.run(fetches, feed_dict=feed)

    def hypotheses(self, beam: int, **values: tuple[numpy.ndarray, Any]) -> list[list[tuple[tuple[int, ...], float]]]:
        """:return: for each sequence the hypotheses of "output" with their scores, the best first"""
        found = self.run(**values)
        (out, (lengths,)), (scores, _) = found["output"], found["scores"]
        entries = [(tuple(row[:n].tolist()), float(s)) for row, n, s in zip(out, lengths, scores, strict=True)]
        return [entries[i : i + beam] for i in range(0, len(entries), beam)]


def inputs(n_batch: int = 3, max_len: int = 5, seed: int = 1) -> tuple[numpy.ndarray, numpy.ndarray]:
    """:return: data (B, T, 3), lengths (B,)"""
    rnd = numpy.random.RandomState(seed)
    lengths = numpy.array([max(max_len - b, 1) for b in range(n_batch)], "int32")
    return rnd.normal(0.0, 1.5, (n_batch, max_len, 3)).astype("float32"), lengths


def labels(rows: Sequence[Sequence[int]] = ((0, 2, 3, 2), (3, 3, 1), (2, 0))) -> tuple[numpy.ndarray, numpy.ndarray]:
    """:return: (B, T), lengths (B,)"""
    lengths = numpy.array([len(row) for row in rows], "int32")
    out = numpy.zeros((len(rows), max(lengths)), "int32")
    for row, values in zip(out, rows, strict=True):
        row[: len(values)] = values
    return out, lengths
