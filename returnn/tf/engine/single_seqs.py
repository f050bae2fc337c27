"""The part of the engine about single sequences: outputs and hypotheses without a pass over a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.datasets.batch import Batch
from returnn.datasets.dataset import Dataset
from returnn.datasets.generating import StaticDataset
from returnn.tf.engine.evaluation import EngineEvaluation
from returnn.tf.engine.hypotheses import HypothesesPerLayer, HypothesisReader
from returnn.util.errors import ConfigError


class EngineSingleSeqs(EngineEvaluation):
    """Single sequences."""

    def get_const_tensor(self, key: str, value: Any) -> tf.Tensor:
        """
        :param key: name
        :param value: number or array
        :return: constant, made once
        """
        return self.made_once(("const", key), lambda: tf.constant(value, name=f"const_{key}"))

    def get_specific_feed_dict(self, dataset: Dataset, seq_idx: int) -> tuple[dict[Any, Any], Batch]:
        """
        :param dataset: after `init_seq_order`
        :param seq_idx: in the order of the epoch
        :return: feed dict, and the batch of this one sequence
        """
        return self._feed_of_seq(dataset, seq_idx, fetches=None)

    def _feed_of_seq(self, dataset: Dataset, seq_idx: int, *, fetches: Any) -> tuple[dict[Any, Any], Batch]:
        dataset.load_seqs(seq_idx, seq_idx + 1)
        batch = Batch()
        batch.init_with_one_full_sequence(seq_idx, dataset)
        feed = self.feed_maker(dataset, fetches).feed_batch(batch).feed_dict
        return {**feed, **self.flags_feed(train_flag=False)}, batch

    def run_single(
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
        feed, _ = self._feed_of_seq(dataset, seq_idx, fetches=output_dict)
        return self.tf_session.run(dict(output_dict), {**feed, **(ext_feed_dict or {})})

    def forward_single(self, dataset: Dataset, seq_idx: int, output_layer_name: str | None = None) -> numpy.ndarray:
        """
        :param dataset: after `init_seq_order`
        :param seq_idx: in the order of the epoch
        :param output_layer_name: default: `forward_output_layer`, or the output of the network
        :return: output of the layer for this sequence, without batch axis
        """
        name = output_layer_name or self.config.value("forward_output_layer", None) or "output"
        output = self.made_once(
            ("output", name), lambda: self.network.get_layer(name).output.copy_as_batch_major().raw_tensor
        )
        return self.run_single(dataset, seq_idx, {"output": output})["output"][0]

    def search_single(self, dataset: Dataset, seq_idx: int, output_layer_name: str | None = None) -> HypothesesPerLayer:
        """
        :param dataset: after `init_seq_order`
        :param seq_idx: in the order of the epoch
        :param output_layer_name: default: `search_output_layer`
        :return: hypotheses of this sequence
        """
        name = output_layer_name or self.config.value("search_output_layer", "output")
        reader = self.made_once(("search", name), lambda: HypothesisReader(self, name))
        return reader.read(self.run_single(dataset, seq_idx, reader.fetches), dataset)[0]

    def search_single_seq(
        self, sources: Sequence[Any] | numpy.ndarray, output_layer_name: str | None = None
    ) -> HypothesesPerLayer:
        """
        :param sources: the frames of the default input: labels, or vectors
        :param output_layer_name: default: `search_output_layer`
        :return: its hypotheses
        :raises ConfigError: if the network needs more than its default input
        """
        extern_data = self.network.extern_data
        data = extern_data.get_default_input_data()
        frames = numpy.asarray(sources, dtype=data.dtype)
        if frames.ndim != data.batch_ndim - 1:
            raise ConfigError(f"search: the input has to be a sequence as {data}, but it has the shape {frames.shape}.")
        ndim = 1 if data.sparse else 2
        dataset = StaticDataset(
            data=[{extern_data.default_input: frames}], output_dim={extern_data.default_input: (data.dim, ndim)}
        )
        dataset.initialize()
        dataset.init_seq_order(epoch=1)
        return self.search_single(dataset, 0, output_layer_name)

    def search_single_string_to_string_seq(
        self, sources: str | Sequence[str], output_layer_name: str | None = None
    ) -> HypothesesPerLayer:
        """
        :param sources: text, or its parts that get a line each; the vocabulary of the default input splits it
        :param output_layer_name: default: `search_output_layer`
        :return: its hypotheses
        :raises ConfigError: if the default input has no vocabulary
        """
        data = self.network.extern_data.get_default_input_data()
        if data.vocab is None:
            raise ConfigError(f"search: the input {data} has no 'vocab', so text cannot be its labels.")
        text = sources if isinstance(sources, str) else " ".join(sources)
        return self.search_single_seq(data.vocab.get_seq(text), output_layer_name)
