"""`Enwik8Corpus`: the first 100 MB of Wikipedia, to predict the next byte."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.errors import DataError
from returnn.util.errors import ConfigError, check_known

_SPLIT_BYTES = {"train": (0, 90_000_000), "valid": (90_000_000, 95_000_000), "test": (95_000_000, 100_000_000)}
_SPLITS = {"training": "train", "validation": "valid"}  # the documented names
_URL = "http://mattmahoney.net/dc/enwik8.zip"


class Enwik8Corpus(CorpusDataset):
    """
    Cuts the text into sequences. "data" has the bytes, "delayed" those one position before.

    The labels are the different bytes of the text, in ascending order.
    """

    def __init__(
        self,
        path: str,
        subset: str,
        seq_len: int,
        batch_num_seqs: int | None = None,
        subsubset: int | tuple[int, int] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param path: of `enwik8.zip` or the text in it, or of the folder with one of them
        :param subset: "training" (first 90 %), "validation" or "test" (5 % each); or "train", "valid"
        :param seq_len: bytes per sequence
        :param batch_num_seqs: the sequences are ordered for batches of that many: each entry of a batch goes on where
            the same one in the batch before has ended
        :param subsubset: only that many bytes of it, or (start, end)
        """
        super().__init__(**kwargs)
        subset = _SPLITS.get(subset, subset)
        check_known("subset", subset, [*_SPLIT_BYTES, *_SPLITS], where=self.description)
        self.path = path
        self._seq_len = seq_len
        text = np.frombuffer(self._read_text(), np.uint8)
        alphabet = np.unique(text)
        self.labels = {key: [chr(byte) for byte in alphabet] for key in (DEFAULT_KEY, "delayed")}
        self.num_inputs = len(alphabet)
        self.num_outputs = {DEFAULT_KEY: (len(alphabet), 1), "delayed": (len(alphabet), 1)}
        start, end = (int(byte * len(text) // 100_000_000) for byte in _SPLIT_BYTES[subset])
        if subsubset is not None:
            sub_start, sub_end = (0, subsubset) if isinstance(subsubset, int) else subsubset
            start, end = start + sub_start, min(start + sub_end, end)
        self._bytes = np.searchsorted(alphabet, text[start:end]).astype(np.int32)
        self._starts = self._find_starts(batch_num_seqs)

    def _read_text(self) -> bytes:
        paths = [self.path, f"{self.path}/enwik8", f"{self.path}/enwik8.zip"]
        path = next((path for path in paths if os.path.isfile(path)), None)
        if path is None:
            raise DataError("there is no such file", dataset=self.description, file=self.path, hint=f"See {_URL}.")
        if path.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                return archive.read(archive.namelist()[0])
        with open(path, "rb") as file:
            return file.read()

    def _find_starts(self, batch_num_seqs: int | None) -> Array:
        num_seqs = (len(self._bytes) - 1) // self._seq_len
        if batch_num_seqs:
            num_seqs = num_seqs // batch_num_seqs * batch_num_seqs
        if num_seqs <= 0:
            raise ConfigError(
                f"{self.description}: too few bytes, {len(self._bytes)}, for sequences of {self._seq_len}."
            )
        starts = np.arange(num_seqs) * self._seq_len
        return starts.reshape(batch_num_seqs, -1).T.reshape(-1) if batch_num_seqs else starts

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._starts)

    def get_data_dtype(self, key: str) -> str:
        return "int32"

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return f"seq-{corpus_seq_idx}"

    def _read_corpus_seq(self, corpus_seq_idx: int) -> Mapping[str, Array]:
        start = int(self._starts[corpus_seq_idx])
        end = start + self._seq_len
        return {DEFAULT_KEY: self._bytes[start + 1 : end + 1], "delayed": self._bytes[start:end]}
