"""`NumpyDumpDataset`: one text file per sequence and data key, as `numpy.savetxt` writes them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.util.numbers.numbers_dict import NumbersDict


class NumpyDumpDataset(CorpusDataset):
    """
    Files `PREFIX{n}.data{POSTFIX}`, (time, feature), and `PREFIX{n}.targets{POSTFIX}`, (time,), for each sequence n.
    """

    file_format_data = "%i.data"
    file_format_targets = "%i.targets"

    def __init__(
        self,
        prefix: str,
        postfix: str = ".txt.gz",
        start_seq: int = 0,
        end_seq: int | None = None,
        num_inputs: int | None = None,
        num_outputs: int | Mapping[str, tuple[int, int]] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param prefix: of the file names, with the folder
        :param postfix: of the file names
        :param start_seq: number of the first sequence
        :param end_seq: exclusive; by default, as far as there are files
        :param num_inputs: number of features; by default, that of the first file
        :param num_outputs: number of labels; by default, one more than the largest label of the first file
        """
        super().__init__(**kwargs)
        self._prefix = prefix
        self._postfix = postfix
        self.start_seq = start_seq
        self._num_files = (end_seq if end_seq is not None else self._find_end()) - start_seq
        if self._num_files <= 0:
            raise DataError("there is no such file", dataset=self.description, file=self._filename("data", 0))
        last = self._filename("data", self._num_files - 1)
        if not os.path.exists(last):
            raise DataError("there is no such file", dataset=self.description, file=last)
        self.num_inputs = num_inputs or self._read("data", 0).shape[1]
        if isinstance(num_outputs, Mapping):
            num_labels = num_outputs["classes"][0]
        else:
            num_labels = num_outputs or int(self._read("targets", 0).max()) + 1
        self.num_outputs = {DEFAULT_KEY: (self.num_inputs, 2), "classes": (num_labels, 1)}

    def _filename(self, kind: str, corpus_seq_idx: int) -> str:
        name = (self.file_format_data if kind == "data" else self.file_format_targets) % (
            self.start_seq + corpus_seq_idx
        )
        return f"{self._prefix}{name}{self._postfix}"

    def _find_end(self) -> int:
        prefix = Path(self._prefix)
        folder, start = (prefix, "") if self._prefix.endswith("/") else (prefix.parent, prefix.name)
        name, number = re.escape(self.file_format_data).split("%i")[1], r"(\d+)"
        pattern = re.compile(re.escape(start) + number + name + re.escape(self._postfix))
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        numbers = [int(match.group(1)) for match in map(pattern.fullmatch, names) if match]
        return max(numbers, default=-1) + 1

    def _read(self, kind: str, corpus_seq_idx: int) -> Array:
        filename = self._filename(kind, corpus_seq_idx)
        try:
            array: Array = np.loadtxt(filename, ndmin=2 if kind == "data" else 1)
        except (OSError, ValueError) as exc:
            raise DataError(f"cannot be read ({exc})", dataset=self.description, key=kind, file=filename) from exc
        return array.astype("float32" if kind == "data" else "int32")

    def _read_corpus_seq(self, corpus_seq_idx: int) -> Mapping[str, Array]:
        return {DEFAULT_KEY: self._read("data", corpus_seq_idx), "classes": self._read("targets", corpus_seq_idx)}

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return f"seq-{self.start_seq + corpus_seq_idx}"

    def _corpus_file(self, corpus_seq_idx: int) -> str | None:
        return self._filename("data", corpus_seq_idx)

    def _seq_len_func(self) -> GetSeqLen:
        return lambda corpus_seq_idx: len(self._read("targets", corpus_seq_idx))

    def get_seq_length(self, seq_idx: int) -> NumbersDict:
        return super().get_seq_length(seq_idx)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return self._num_files
