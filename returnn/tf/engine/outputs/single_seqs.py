"""`SingleSeqs`: outputs and hypotheses of single sequences, without a pass over a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.generating import StaticDataset
from returnn.engine.hypothesis_files import HypothesesPerLayer
from returnn.tf.engine.feeding.batches import make_feed_maker
from returnn.tf.engine.outputs.hypotheses import HypothesisReader
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.util.errors import ConfigError


class SingleSeqs:
    """Runs the network on one sequence. What is added to the graph for it is kept for the next one."""

    def __init__(self, session: NetworkSession) -> None:
        """:param session: with a network"""
        self.session = session

    def constant(self, key: str, value: Any) -> tf.Tensor:
        """
        :param key: name
        :param value: number or array
        :return: constant, made once
        """
        return self.session.built.made_once(("const", key), lambda: tf.constant(value, name=f"const_{key}"))

    def feed_of_seq(self, dataset: Dataset, seq_idx: int, *, fetches: Any = None) -> tuple[dict[Any, Any], Batch]:
        """
        :param dataset: after `init_seq_order`
        :param seq_idx: in the order of the epoch
        :param fetches: what will be computed, see `FeedMaker`
        :return: feed dict, and the batch of this one sequence
        """
        dataset.load_seqs(seq_idx, seq_idx + 1)
        batch = Batch()
        batch.init_with_one_full_sequence(seq_idx, dataset)
        feed = make_feed_maker(self.session, dataset, fetches).feed_batch(batch).feed_dict
        return {**feed, **self.session.built.flags_feed(train_flag=False)}, batch

    def run(
        self,
        dataset: Dataset,
        seq_idx: int,
        output_dict: Mapping[str, Any],
        ext_feed_dict: Mapping[Any, Any] | None = None,
    ) -> dict[str, Any]:
        """
        :param dataset: after `init_seq_order`
        :param seq_idx: in the order of the epoch
        :param output_dict: what to fetch: raw tensors by name
        :param ext_feed_dict: what else to feed
        :return: values by name
        """
        feed, _ = self.feed_of_seq(dataset, seq_idx, fetches=output_dict)
        return self.session.tf_session.run(dict(output_dict), {**feed, **(ext_feed_dict or {})})

    def forward(self, dataset: Dataset, seq_idx: int, output_layer_name: str | None = None) -> numpy.ndarray:
        """
        :param dataset: after `init_seq_order`
        :param seq_idx: in the order of the epoch
        :param output_layer_name: default: `forward_output_layer`, or the output of the network
        :return: output of the layer for this sequence, without batch axis
        """
        name = output_layer_name or self.session.config.options.forward_output_layer
        output = self.session.built.made_once(
            ("output", name), lambda: self.session.network.get_layer(name).output.copy_as_batch_major().raw_tensor
        )
        return self.run(dataset, seq_idx, {"output": output})["output"][0]

    def search(self, dataset: Dataset, seq_idx: int, output_layer_name: str | None = None) -> HypothesesPerLayer:
        """
        :param dataset: after `init_seq_order`
        :param seq_idx: in the order of the epoch
        :param output_layer_name: default: `search_output_layer`
        :return: hypotheses of this sequence
        """
        name = output_layer_name or ",".join(self.session.config.options.search_output_layer)
        reader = self.session.built.made_once(("search", name), lambda: HypothesisReader(self.session.network, name))
        return reader.read(self.run(dataset, seq_idx, reader.fetches), dataset)[0]

    def search_frames(
        self, sources: Sequence[Any] | numpy.ndarray, output_layer_name: str | None = None
    ) -> HypothesesPerLayer:
        """
        :param sources: the frames of the default input: labels, or vectors
        :param output_layer_name: default: `search_output_layer`
        :return: its hypotheses
        :raises ConfigError: if the network needs more than its default input
        """
        extern_data = self.session.network.extern_data
        data = extern_data.get_default_input_data()
        frames = numpy.asarray(sources, dtype=data.dtype)
        if frames.ndim != len(data.dims) - 1:
            raise ConfigError(f"search: the input has to be a sequence as {data}, but it has the shape {frames.shape}.")
        ndim = 1 if data.sparse else 2
        dataset = StaticDataset(
            data=[{extern_data.default_input: frames}], output_dim={extern_data.default_input: (data.dim, ndim)}
        )
        dataset.initialize()
        dataset.init_seq_order(epoch=1)
        return self.search(dataset, 0, output_layer_name)

    def search_text(self, sources: str | Sequence[str], output_layer_name: str | None = None) -> HypothesesPerLayer:
        """
        :param sources: text, or its parts that get a line each; the vocabulary of the default input splits it
        :param output_layer_name: default: `search_output_layer`
        :return: its hypotheses
        :raises ConfigError: if the default input has no vocabulary
        """
        data = self.session.network.extern_data.get_default_input_data()
        if data.vocab is None:
            raise ConfigError(f"search: the input {data} has no 'vocab', so text cannot be its labels.")
        text = sources if isinstance(sources, str) else " ".join(sources)
        return self.search_frames(data.vocab.get_seq(text), output_layer_name)
