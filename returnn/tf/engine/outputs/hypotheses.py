"""
What a search yields: hypotheses of each sequence as text, and files with them.

A layer after `decide` has one hypothesis for each sequence, any other layer with a beam has a list of pairs: score and
text, the best one first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.util.vocabulary_base import Vocabulary
from returnn.engine.hypothesis_files import Hypotheses, HypothesesPerLayer, words_of
from returnn.engine.search_results import missing_references
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.search.ctc_decode import CtcDecodeLayer
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import warn_once

Serializer: TypeAlias = Callable[[numpy.ndarray], str]


class HypothesisReader:
    """What to fetch in a step, and what it says."""

    def __init__(self, network: TFNetwork, layer_names: str | Sequence[str]) -> None:
        """
        :param network: in search
        :param layer_names: layers with the hypotheses
        :raises ConfigError: if a layer does not exist, or has no labels
        """
        names = [layer_names] if isinstance(layer_names, str) else list(layer_names)
        self._network = network
        self._layers = {name: network.get_layer(name) for name in names}
        self.fetches: dict[str, tf.Tensor] = {}
        for name, layer in self._layers.items():
            self.fetches.update(_fetches_of(network, name, layer))

    @property
    def has_prefixes(self) -> bool:
        """Of the labels of all layers, see `words_of`."""
        return labels_have_prefixes(self._network, self._layers)

    @property
    def target(self) -> str:
        """Key of the target of the first layer, or of the network."""
        target = next(iter(self._layers.values())).target
        return target if isinstance(target, str) else self._network.extern_data.default_target

    def references(self, dataset: Dataset) -> ReferenceReader:
        """
        :param dataset: that is decoded
        :return: what the hypotheses of the first layer are compared with
        :raises ConfigError: if they cannot be compared
        """
        check_words(next(iter(self._layers.values())))
        return ReferenceReader(self._network, self.target, dataset)

    def read(self, values: Mapping[str, Any], dataset: Dataset) -> list[HypothesesPerLayer]:
        """
        :param values: of the fetches
        :param dataset: knows names of labels, if the layers do not
        :return: for each sequence. With several layers, it is a dict by layer
        """
        per_layer = {
            name: self._read_layer(name, values, _serializer(layer, dataset, self._network))
            for name, layer in self._layers.items()
        }
        if len(per_layer) == 1:
            return list(next(iter(per_layer.values())))
        return [dict(zip(per_layer, row, strict=True)) for row in zip(*per_layer.values(), strict=True)]

    def _read_layer(self, name: str, values: Mapping[str, Any], to_text: Serializer) -> list[Hypotheses]:
        labels, lengths = values[f"labels/{name}"], values.get(f"lengths/{name}")
        scores = values.get(f"scores/{name}")
        texts = [to_text(_cut(row, None if lengths is None else lengths[i])) for i, row in enumerate(labels)]
        if scores is None:
            return list(texts)
        beams = zip(scores.tolist(), numpy.reshape(numpy.array(texts, dtype=object), scores.shape), strict=True)
        return [_best_first(row, beam) for row, beam in beams]


class ReferenceReader:
    """The target, as text: what should have been found."""

    def __init__(self, network: TFNetwork, key: str, dataset: Dataset) -> None:
        """
        :param network: in search
        :param key: of the target
        :param dataset: knows names of labels, if the target does not
        :raises ConfigError: if the target is not there, or its labels have no names
        """
        have = dataset.get_data_keys()
        if network.extern_data.has_data(key) and key not in have:
            raise missing_references(key, have)
        target = network.extern_data.get_data(key)
        if not target.sparse:
            raise ConfigError(f"option 'search_metrics': the target {key!r} has no labels, but features: {target}.")
        self._vocab = target.vocab
        self._key = key
        if self._vocab is None and not (key in dataset.get_data_keys() and dataset.can_serialize_data(key)):
            raise ConfigError(
                f"option 'search_metrics': the labels of the target {key!r} have no names.\n"
                f"  Give it a 'vocab' in 'extern_data', such as {{'vocab_file': FILE}}."
            )
        target = network.get_extern_data(key, mark_data_key_as_used=True).copy_as_batch_major()
        lengths = target.get_time_dim_tag().get_size_tensor().copy_as_batch_major()
        self.fetches = {"reference": target.raw_tensor, "reference lengths": lengths.raw_tensor}

    @property
    def end_label(self) -> str | None:
        """Of the target; None if it is not known."""
        return None if self._vocab is None else self._vocab.end_label

    def read(self, values: Mapping[str, Any], dataset: Dataset) -> list[str]:
        """
        :param values: of the fetches
        :param dataset: knows names of labels, if the target does not
        :return: of each sequence, its labels
        """
        rows = zip(values["reference"], values["reference lengths"], strict=True)
        seqs = [labels[:length] for labels, length in rows]
        if self._vocab is not None:
            return [self._vocab.get_seq_labels(labels) for labels in seqs]
        return [dataset.serialize_data(self._key, labels) for labels in seqs]


def check_words(layer: LayerBase) -> None:
    """
    :param layer: with hypotheses, or `decide` behind it
    :raises ConfigError: if it has words of a lexicon, and its target the labels that spell them, of which nobody can
        make words by joining them, such as phonemes
    """
    for decoder in (layer, *layer.sources):
        if not isinstance(decoder, CtcDecodeLayer) or decoder.spelled_words is None:
            continue
        vocab, target = decoder.label_vocab, decoder.get_target_value()
        if target is None or target.vocab is not vocab:
            continue
        examples = decoder.spelled_words.examples
        if not any(words_of(vocab.get_seq_labels(labels)).strip() == word for word, labels in examples):
            word, labels = examples[0]
            raise ConfigError(
                f"option 'search_metrics': {decoder.where()} has words, such as {word!r}, but its target"
                f" {decoder.target!r} has labels that make no words: {vocab.get_seq_labels(labels)!r}.\n"
                "  Set its 'target' to data with words; the lexicon has the labels of the target of its source."
            )


def labels_have_prefixes(network: TFNetwork, layer_names: Iterable[str]) -> bool:
    """
    :param network: in search
    :param layer_names: layers with hypotheses
    :return: whether the labels of all of them have "▁" before each word, see `words_of`
    """
    vocabs = [_vocab_of(network.get_layer(name), network) for name in layer_names]
    return all(vocab is not None and vocab.has_word_prefixes for vocab in vocabs)


def check_labels(name: str, output: Tensor) -> None:
    """:raises ConfigError: if the output of a layer cannot be a hypothesis"""
    if output.sparse_dim is None or not output.have_batch_axis():
        raise ConfigError(
            f"option 'search_output_layer': {name!r} has {output}, expected labels.\n"
            "  A decoder is a loop with the layer 'choice', and 'decide' behind it; for CTC, there is 'ctc_decode'.\n"
            "  A model without a decoder, such as most language models, is scored by the task 'eval', and served with "
            "web_server_output = 'forward'."
        )


# Values.


def _best_first(scores: Sequence[float], texts: Sequence[str]) -> list[tuple[float, str]]:
    """:return: the hypotheses, without those that do not exist, as the beam is larger than their number"""
    pairs = sorted(zip(scores, texts, strict=True), key=lambda pair: -pair[0])
    return [pair for pair in pairs if pair[0] > -math.inf] or pairs[:1]


def _fetches_of(network: TFNetwork, name: str, layer: LayerBase) -> dict[str, tf.Tensor]:
    output: Tensor = layer.output
    check_labels(name, output)
    batch = output.get_batch_dim_tag()  # maybe merged with the beam
    beam = network.beams.of_merged(batch)
    values = output.copy_as_batch_major()
    fetches = {f"labels/{name}": values.raw_tensor}
    time_dim = _time_dim(output)
    if time_dim is not None:
        lengths = time_dim.get_size_tensor()
        lengths = rf.expand_to(lengths, [batch])
        fetches[f"lengths/{name}"] = lengths.copy_as_batch_major().raw_tensor
    if beam is not None and beam.scores is not None:
        fetches[f"scores/{name}"] = beam.scores.copy_transpose([batch_dim, beam.dim]).raw_tensor
    return fetches


def _time_dim(output: Tensor) -> Dim | None:
    return output.get_time_dim_tag() if output.time_dim_axis is not None else None


def _cut(labels: numpy.ndarray, length: Any) -> numpy.ndarray:
    return labels if length is None else labels[: int(length)]


def _target_of(layer: LayerBase, network: TFNetwork) -> str:
    return layer.target if isinstance(layer.target, str) else network.extern_data.default_target


def _vocab_of(layer: LayerBase, network: TFNetwork) -> Vocabulary | None:
    """:return: of the output, or of a target like it"""
    described = network.extern_data.data.get(_target_of(layer, network))
    is_same = described is not None and described.sparse and described.dim == layer.output.dim
    return layer.output.vocab or (described.vocab if described is not None and is_same else None)


def _serializer(layer: LayerBase, dataset: Dataset, network: TFNetwork) -> Serializer:
    """:return: function from labels to text: by the vocabulary of the output, or of a target like it"""
    target, vocab = _target_of(layer, network), _vocab_of(layer, network)
    if vocab is not None:
        return lambda labels: vocab.get_seq_labels(numpy.atleast_1d(labels))
    if target in dataset.get_data_keys() and dataset.can_serialize_data(target):
        return lambda labels: dataset.serialize_data(target, numpy.atleast_1d(labels))
    warn_once(
        f"{layer.where()}: its labels have no names, so hypotheses are numbers. "
        f"Give {target!r} a 'vocab' in 'extern_data', such as {{'vocab_file': FILE}}."
    )
    return lambda labels: " ".join(map(str, numpy.atleast_1d(labels).tolist()))
