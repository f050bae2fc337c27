"""Texts of the sequences of a data set, such as references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy

from returnn.config import Config
from returnn.datasets.core.data_check import empty_seqs_allowed
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.search_results import CorpusOrder
from returnn.tools.dataset_dump import Selection
from returnn.util.errors import UserError, check_known


def key_of_texts(dataset: Dataset, given: str | None) -> str:
    """
    :param dataset: the data
    :param given: key that a user wants
    :return: this key, or that of targets; or of raw text, which an archive has that is read for its texts
    """
    known = dataset.get_data_keys()
    return given or next((key for key in ("classes", "raw") if key in known), "classes")


def seq_texts(
    dataset: Dataset, key: str, selection: Selection, *, vocab: Vocabulary | None = None
) -> Iterator[tuple[str, str]]:
    """
    :param dataset: the data
    :param key: of raw text (a scalar string, or UTF-8 bytes), or of labels with names
    :param selection: of its sequences
    :param vocab: says how labels become text; by default, the data set does
    :return: tag and text of each sequence. A text may be empty, as that of silence, as no network has to compute of it
    :raises UserError: if the data of this key is no text
    """
    check_known("data key", key, dataset.get_data_keys(), where="option '--key'")
    with empty_seqs_allowed():
        for seq_idx in selection.seqs_of(dataset):
            yield dataset.get_tag(seq_idx), _text_of(dataset, key, dataset.get_data(seq_idx, key), vocab)


def references_of(config: Config, dataset: Dataset, key: str) -> tuple[dict[str, str], str | None]:
    """
    :param config: its `extern_data` may say which labels there are, as it does for a search
    :param dataset: the data
    :param key: of raw text or labels
    :return: the texts by tag, in the order of the corpus if the data set knows it, as the hypotheses of a search are;
        and the label that ends each of them, None if it is not known
    """
    vocab = _vocab_of(config, key)
    texts = dict(seq_texts(dataset, key, Selection(), vocab=vocab))
    order = CorpusOrder(dataset)
    order.add(list(texts))
    return order.sorted(texts), vocab.end_label if vocab is not None else None


def _vocab_of(config: Config, key: str) -> Vocabulary | None:
    extern_data = config.opt_typed_value("extern_data", None)
    options = extern_data.get(key) if isinstance(extern_data, Mapping) else None
    vocab = options.get("vocab") if isinstance(options, Mapping) else None
    if isinstance(vocab, Mapping):
        vocab = Vocabulary.create_vocab(**vocab)
    return vocab if isinstance(vocab, Vocabulary) else None


def _text_of(dataset: Dataset, key: str, data: numpy.ndarray, vocab: Vocabulary | None) -> str:
    if data.dtype.kind in "OUS" and data.size == 1:
        value = data.flatten()[0]
        return value.decode("utf8") if isinstance(value, bytes) else str(value)
    if vocab is not None and dataset.is_data_sparse(key):
        return vocab.get_seq_labels(data)
    if dataset.can_serialize_data(key):
        return dataset.serialize_data(key, data)
    if data.dtype == numpy.uint8:  # after labels, which are uint8 if there are few of them
        return bytes(data).decode("utf8")
    what = f"{data.dtype} of shape {list(data.shape)}, without names of labels"
    raise UserError(f"option '--key': the data {key!r} is no text: {what}.")
