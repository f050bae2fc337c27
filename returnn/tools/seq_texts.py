"""Texts of the sequences of a data set, such as references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.tools.dataset_dump import Selection
from returnn.util.errors import UserError, check_known


def seq_texts(dataset: Dataset, key: str, selection: Selection) -> Iterator[tuple[str, str]]:
    """
    :param dataset: the data
    :param key: of raw text (a scalar string, or UTF-8 bytes), or of labels with names
    :param selection: of its sequences
    :return: tag and text of each sequence
    :raises UserError: if the data of this key is no text
    """
    check_known("data key", key, dataset.get_data_keys(), where="option '--key'")
    for seq_idx in selection.seqs_of(dataset):
        yield dataset.get_tag(seq_idx), _text_of(dataset, key, dataset.get_data(seq_idx, key))


def end_label_of(config: Config, key: str) -> str | None:
    """
    :param config: its `extern_data` may say which labels there are
    :param key: of labels
    :return: the one that ends sequences; None if it is not known
    """
    extern_data = config.opt_typed_value("extern_data", None)
    options = extern_data.get(key) if isinstance(extern_data, Mapping) else None
    vocab = options.get("vocab") if isinstance(options, Mapping) else None
    if isinstance(vocab, Mapping):
        vocab = Vocabulary.create_vocab(**vocab)
    return vocab.end_label if isinstance(vocab, Vocabulary) else None


def _text_of(dataset: Dataset, key: str, data: numpy.ndarray) -> str:
    if data.dtype.kind in "OUS" and data.size == 1:
        value = data.flatten()[0]
        return value.decode("utf8") if isinstance(value, bytes) else str(value)
    if data.dtype == numpy.uint8:
        return bytes(data).decode("utf8")
    if dataset.can_serialize_data(key):
        return dataset.serialize_data(key, data)
    what = f"{data.dtype} of shape {list(data.shape)}, without names of labels"
    raise UserError(f"option '--key': the data {key!r} is no text: {what}.")
