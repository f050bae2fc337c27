"""`TextDictDataset`: texts by sequence tag, such as the output of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.util.errors import UserError, check_known
from returnn.util.files.literal import literal_eval
from returnn.util.files.text_file import read_text

_SINGLE, _LIST_WITH_SCORES = "single", "list_with_scores"
_FLAT, _LENS, _SCORES = "data_flat", "data_seq_lens", "scores"


class TextDictDataset(CorpusDataset):
    """
    The file is a Python dict from sequence tag to text, or to a list of (score, text).

    A text gives the key "data". A list gives the labels of all its texts after each other as "data_flat", their
    lengths as "data_seq_lens", and their scores (natural log of probabilities) as "scores".
    """

    def __init__(
        self,
        *,
        filename: str,
        vocab: Mapping[str, Any] | Vocabulary,
        item_format: str = _LIST_WITH_SCORES,
        **kwargs: Any,
    ):
        """
        :param filename: can be gzipped
        :param vocab: options of `Vocabulary`
        :param item_format: "single" (a text for each tag), or "list_with_scores"
        """
        super().__init__(**kwargs)
        check_known("item_format", item_format, (_SINGLE, _LIST_WITH_SCORES), where=self.description)
        self.filename = filename
        self.item_format = item_format
        self.vocab = vocab if isinstance(vocab, Vocabulary) else Vocabulary.create_vocab(**vocab)
        self._items = self._read_file()
        self._tags = list(self._items)
        self._label_key = DEFAULT_KEY if item_format == _SINGLE else _FLAT
        self.num_inputs = self.vocab.num_labels
        self.num_outputs = {self._label_key: (self.vocab.num_labels, 1)}
        if item_format == _LIST_WITH_SCORES:
            self.num_outputs.update({_LENS: (1, 1), _SCORES: (1, 1)})
        self.labels = {self._label_key: self.vocab.labels}
        self.vocabs = {self._label_key: self.vocab}

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._tags)

    def get_data_keys(self) -> list[str]:
        return list(self.num_outputs)

    def get_data_dtype(self, key: str) -> str:
        return "float32" if key == _SCORES else "int32"

    def is_data_sparse(self, key: str) -> bool:
        return key == self._label_key

    def get_data_shape(self, key: str) -> list[int | None]:
        return []

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return self._tags[corpus_seq_idx]

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        return self.filename

    def _seed_random(self, seed: int) -> None:
        self.vocab.set_random_seed(seed)

    def _seq_len_func(self) -> GetSeqLen:
        return lambda i: sum(len(text) for _, text in self._scored_texts(i))

    def _read_corpus_seq(self, corpus_seq_idx: int) -> dict[str, Array]:
        texts = self._scored_texts(corpus_seq_idx)
        seqs = [self.vocab.get_seq(text) for _, text in texts]
        data = {self._label_key: numpy.array([label for seq in seqs for label in seq], dtype="int32")}
        if self.item_format == _LIST_WITH_SCORES:
            data[_LENS] = numpy.array([len(seq) for seq in seqs], dtype="int32")
            data[_SCORES] = numpy.array([score for score, _ in texts], dtype="float32")
        return data

    def _scored_texts(self, corpus_seq_idx: int) -> list[tuple[float, str]]:
        item = self._items[self._tags[corpus_seq_idx]]
        return [(0.0, item)] if isinstance(item, str) else item

    def _read_file(self) -> dict[str, Any]:
        try:
            items = literal_eval(read_text(self.filename))
        except ValueError as exc:
            if isinstance(exc, UserError):
                raise
            raise DataError(f"it is no Python dict: {exc}", dataset=self.description, file=self.filename) from exc
        if not isinstance(items, dict) or not items:
            what = "an empty dict" if items == {} else f"a {type(items).__name__}"
            raise DataError(f"expected a dict of texts, got {what}", dataset=self.description, file=self.filename)
        for tag, item in items.items():
            self._check_item(tag, item)
        return items

    def _check_item(self, tag: str, item: Any) -> None:
        if self.item_format == _SINGLE:
            is_right, expected = isinstance(item, str), "a text"
        else:
            is_right = isinstance(item, list | tuple) and all(
                isinstance(entry, list | tuple)
                and len(entry) == 2
                and isinstance(entry[0], int | float)
                and isinstance(entry[1], str)
                for entry in item
            )
            expected = "a list of (score, text)"
        if not is_right:
            raise DataError(
                f"expected {expected}, got {repr(item)[:60]}",
                dataset=self.description,
                seq=str(tag),
                file=self.filename,
                hint=f"Option 'item_format' is {self.item_format!r}.",
            )
