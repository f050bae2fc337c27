"""`SpeechDataset`: the base class of corpora of recordings with their text."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.epoch_wise_filter import (
    EpochWiseFilter,
    EpochWiseFilterOption,
    FilterRule,
    filter_by_mean_len,
)
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.datasets.util.strings import str_to_numpy_array
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.util.errors import ConfigError, check_known

_CLASSES, _ORTH, _RAW = "classes", "orth", "raw"


class SpeechDataset(CorpusDataset):
    """
    Has the keys "data" (features), "classes" (labels of the text), "orth" (its bytes) and "raw" (the text, as string).

    A derived class defines `_audio_bytes` and `_text`.
    """

    def __init__(
        self,
        *,
        audio: Mapping[str, Any] | ExtractAudioFeatures | None,
        targets: Mapping[str, Any] | Vocabulary | None,
        epoch_wise_filter: EpochWiseFilterOption = None,
        **kwargs: Any,
    ):
        """
        :param audio: options of `ExtractAudioFeatures`; None: there is no "data"
        :param targets: options of `Vocabulary`; None: there are no "classes"
        :param epoch_wise_filter: options of `EpochWiseFilter`, by ranges of epochs of the training
        """
        super().__init__(**kwargs)
        self.feature_extractor = _make_feature_extractor(audio, where=self.description)
        self.targets = _make_vocab(targets)
        self.epoch_wise_filter = (
            EpochWiseFilter(epoch_wise_filter, self.description)
            if isinstance(epoch_wise_filter, Mapping)
            else epoch_wise_filter
        )
        self.num_outputs = {}
        if self.feature_extractor:
            self.num_inputs = self.feature_extractor.get_feature_dimension()
            self.num_outputs[DEFAULT_KEY] = (self.num_inputs, 3 if self.feature_extractor.num_channels else 2)
        if self.targets:
            self.num_outputs[_CLASSES] = (self.targets.num_labels, 1)
            self.labels = {_CLASSES: self.targets.labels}
            self.vocabs = {_CLASSES: self.targets}
        self.num_outputs[_ORTH] = (256, 1)
        self.num_outputs[_RAW] = (1, 0)

    def _audio_bytes(self, corpus_seq_idx: int) -> bytes:
        raise self._unknown("the audio")

    def _text(self, corpus_seq_idx: int) -> str:
        raise self._unknown("the text")

    def get_data_keys(self) -> list[str]:
        return list(self.num_outputs)

    def get_data_dtype(self, key: str) -> str:
        return {DEFAULT_KEY: "float32", _CLASSES: "int32", _ORTH: "uint8", _RAW: "string"}[key]

    def is_data_sparse(self, key: str) -> bool:
        return key in (_CLASSES, _ORTH)

    def get_data_shape(self, key: str) -> list[int | None]:
        if key != DEFAULT_KEY or not self.feature_extractor:
            return []
        channels = self.feature_extractor.num_channels
        return [*([channels] if channels else []), self.feature_extractor.get_feature_dimension()]

    def _read_corpus_seq(self, corpus_seq_idx: int) -> dict[str, Array]:
        text = self._text(corpus_seq_idx)
        data: dict[str, Array] = {}
        if self.feature_extractor:
            content = self._audio_bytes(corpus_seq_idx)
            tag = self._corpus_tag(corpus_seq_idx)
            data[DEFAULT_KEY] = self.feature_extractor.get_audio_features_from_raw_bytes(content, seq_name=tag)
        if self.targets:
            data[_CLASSES] = numpy.array(self.targets.get_seq(text), dtype="int32")
        data[_ORTH] = numpy.frombuffer(text.encode("utf-8"), dtype="uint8")
        data[_RAW] = str_to_numpy_array(text)
        return data

    def _seed_random(self, seed: int) -> None:
        if self.feature_extractor:
            self.feature_extractor.random_state.seed(seed)
        if self.targets:
            self.targets.set_random_seed(seed)

    def _order_of_epoch(self, epoch: int) -> SeqOrder:
        order = super()._order_of_epoch(epoch)
        if self.epoch_wise_filter is None:
            return order
        rule = self.epoch_wise_filter.rule(epoch)
        return order if rule is None else self._filtered(order, rule)

    def _filtered(self, order: SeqOrder, rule: FilterRule) -> SeqOrder:
        get_seq_len = self._seq_len_func()
        if rule.subdirs is not None:
            raise ConfigError(f"{self.description}: option 'epoch_wise_filter': this corpus has no 'subdirs'.")
        if get_seq_len is None:
            raise ConfigError(f"{self.description}: option 'epoch_wise_filter': the lengths are not known beforehand.")
        return filter_by_mean_len(order, get_seq_len, rule)


def random_subset(num_seqs: int, subset: float | None, *, seed: int, where: str) -> SeqOrder:
    """
    The option `fixed_random_subset`.

    :param num_seqs: of the corpus
    :param subset: fraction up to 1.0 (as float), or number of sequences; None: all
    :param seed: of the choice
    :param where: for errors
    :return: corpus indices, in the order of the corpus
    """
    if subset is None:
        return range(num_seqs)
    if isinstance(subset, bool) or subset <= 0 or (isinstance(subset, float) and subset > 1):
        raise ConfigError(
            f"{where}: option 'fixed_random_subset': {subset!r} is no fraction and no number of sequences."
        )
    size = max(int(num_seqs * subset), 1) if isinstance(subset, float) else min(subset, num_seqs)
    chosen = numpy.random.RandomState(seed).permutation(num_seqs)[:size]
    return numpy.sort(chosen).astype("int64")


def _make_feature_extractor(
    audio: Mapping[str, Any] | ExtractAudioFeatures | None, *, where: str
) -> ExtractAudioFeatures | None:
    if audio is None or isinstance(audio, ExtractAudioFeatures):
        return audio
    for option in audio:
        check_known(
            "option", option, inspect.signature(ExtractAudioFeatures).parameters, where=f"{where}: option 'audio'"
        )
    return ExtractAudioFeatures(**audio)


def _make_vocab(targets: Mapping[str, Any] | Vocabulary | None) -> Vocabulary | None:
    return targets if targets is None or isinstance(targets, Vocabulary) else Vocabulary.create_vocab(**targets)
