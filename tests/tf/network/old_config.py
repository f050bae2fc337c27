"""Runs the net of a config file on random data, in the way in which a user's config gets to the toolkit: as text."""

from __future__ import annotations

import io
import os
import pathlib
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

from returnn.config import Config, global_config_ctx
from returnn.tf.network import TFNetwork
from returnn.util.behavior_version import BehaviorVersion

tf1 = tf.compat.v1
LENGTHS = (7, 4, 5)
_FOLDER = pathlib.Path(__file__).parent / "configs"


def load(name: str) -> Config:
    """
    :param name: of a file in `configs`; or the text of a Python config
    """
    config = Config()
    config.load_file(io.StringIO(f"#!rnn.py\n{name}") if "\n" in name else _FOLDER / f"{name}.config")
    return config


class ConfigNet:
    """The network of a config, in a graph and a session of its own."""

    def __init__(
        self, config: str | Config, *, network: dict[str, Any] | None = None, with_loss: bool = False, **flags: Any
    ) -> None:
        """
        :param config: see `load`; or a config
        :param network: instead of `network` in the config
        :param with_loss: make `loss`, the total loss, and `gradients`, of all parameters
        :param flags: for the network
        """
        self.config = load(config) if isinstance(config, str) else config
        BehaviorVersion.reset()
        BehaviorVersion.set(self.config.int("behavior_version", None))
        self.graph = tf.Graph()
        with self.graph.as_default(), global_config_ctx(self.config):
            tf1.set_random_seed(1)
            self.net = TFNetwork(config=self.config, rnd_seed=1, **{"eval_flag": True, **flags})
            self.net.construct_from_dict(network or self.config.typed_dict["network"])
            if with_loss:
                self.loss = self.net.get_objective()
                gradients = tf1.gradients(self.loss, self.net.get_trainable_params())
                # Those of embeddings are sparse.
                self.gradients = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
            self.session = tf1.Session(graph=self.graph)
            self.net.initialize_params(self.session)

    def feed(self, values: dict[str, Any] | None = None, lengths: Any = LENGTHS, seed: int = 1) -> dict[Any, Any]:
        """
        :param values: by key of the data; what is missing is random
        :param lengths: of all data; or by key
        :param seed: of the random values
        """
        random, feed = numpy.random.RandomState(seed), {}
        for key, data in sorted(self.net.extern_data.data.items()):
            if key in self.net.extern_data.extra_added_keys:
                continue
            own = lengths[key] if isinstance(lengths, dict) else lengths
            shape = [len(own) if d.is_batch_dim() else d.dimension or max(own) for d in data.dims]
            if (values or {}).get(key) is not None:
                feed[data.raw_tensor] = values[key]
            elif data.dtype == "string":
                feed[data.raw_tensor] = [f"seq-{i}" for i in range(len(own))]
            elif data.sparse or data.dtype.startswith("int"):
                feed[data.raw_tensor] = random.randint(0, data.dim or 3, shape)
            else:
                feed[data.raw_tensor] = random.normal(size=shape).astype(data.dtype)
            feed.update({d.dyn_size: own for d in data.dims if d.is_dynamic_seq_length()})
            feed.update({d.dyn_size: len(own) for d in data.dims if d.is_batch_dim() and d.dyn_size is not None})
        return feed

    def run(self, fetches: Any = "output", **options: Any) -> Any:
        """
        :param fetches: names of layers, or raw tensors
        :param options: for `feed`
        :return: values; those of layers with the batch axis first
        """
        with self.graph.as_default():
            return self.session.run(tf.nest.map_structure(self._fetch, fetches), feed_dict=self.feed(**options))

    def _fetch(self, fetch: Any) -> Any:
        if not isinstance(fetch, str):
            return fetch
        out = self.net.get_layer(fetch).output
        return (out.copy_as_batch_major() if out.have_batch_axis() else out).raw_tensor
