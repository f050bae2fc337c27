"""`StaticDataset`: sequences from a list in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.data_dims import DataDim, convert_data_dims
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.util.errors import check_known

_TAG_KEY = "seq_tag"


class StaticDataset(CorpusDataset):
    """Each sequence is a dict from data key to array. Its tag is that of the key "seq_tag", or "seq-{n}"."""

    def __init__(
        self,
        data: Sequence[Mapping[str, Array]],
        target_list: Sequence[str] | None = None,
        input_dim: int | None = None,
        output_dim: Mapping[str, DataDim] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param data: the sequences
        :param target_list: the data keys beside "data"; by default, all that there are
        :param input_dim: number of features (or labels) of "data", unless `output_dim` has it
        :param output_dim: by data key the dim or (dim, ndim); by default, as it is in the data
        """
        super().__init__(**kwargs)
        if not len(data):
            raise DataError("there are no sequences", dataset=self.description, hint="The option 'data' is empty.")
        self.data = data
        keys = [key for key in data[0] if key != _TAG_KEY]
        self.target_list = list(target_list) if target_list is not None else [key for key in keys if key != DEFAULT_KEY]
        self.data_keys = [key for key in keys if key == DEFAULT_KEY] + self.target_list
        self._check_keys()
        self._dtypes = {key: np.asarray(data[0][key]).dtype for key in self.data_keys}
        outputs = convert_data_dims(output_dim or {})
        if input_dim is not None:
            where = f"{self.description}: option 'input_dim'"
            check_known("data key", DEFAULT_KEY, self.data_keys, where=where)
            outputs.setdefault(DEFAULT_KEY, (input_dim, np.ndim(data[0][DEFAULT_KEY])))
        self.num_outputs = {key: outputs.get(key) or self._dim_in_data(key) for key in self.data_keys}
        self.num_inputs = self.num_outputs[DEFAULT_KEY][0] if DEFAULT_KEY in self.num_outputs else 0

    def _check_keys(self) -> None:
        for i, seq in enumerate(self.data):
            missing = [key for key in self.data_keys if key not in seq]
            if missing:
                raise DataError(
                    "is missing",
                    dataset=self.description,
                    seq=self._corpus_tag(i),
                    key=missing[0],
                    hint=f"The sequence has: {', '.join(sorted(seq))}.",
                )

    def _dim_in_data(self, key: str) -> tuple[int, int]:
        first = np.asarray(self.data[0][key])
        if first.dtype.kind in "iu" and first.ndim <= 1:
            return max((int(np.max(seq[key])) + 1 for seq in self.data if np.size(seq[key])), default=1), first.ndim
        return (first.shape[-1] if first.ndim >= 2 else 1), first.ndim

    @classmethod
    def copy_from_dataset(cls, dataset: Dataset, start_seq_idx: int = 0, max_seqs: int | None = None) -> StaticDataset:
        """
        :param dataset: after `init_seq_order`
        :param start_seq_idx: first sequence
        :param max_seqs: how many sequences; None: all
        """
        keys = dataset.get_data_keys()
        seqs: list[dict[str, Array]] = []
        seq_idx = start_seq_idx
        while dataset.is_less_than_num_seqs(seq_idx) and (max_seqs is None or len(seqs) < max_seqs):
            dataset.load_seqs(seq_idx, seq_idx + 1)
            seq = {key: dataset.get_data(seq_idx, key) for key in keys}
            seqs.append({**seq, _TAG_KEY: np.array(dataset.get_tag(seq_idx))})
            seq_idx += 1
        outputs = {key: (dataset.get_data_dim(key), dataset.get_num_axes(key)) for key in keys}
        return cls(seqs, target_list=[key for key in keys if key != DEFAULT_KEY], output_dim=outputs)

    def _seq_len_func(self) -> GetSeqLen:
        key = self.data_keys[0]
        return lambda corpus_seq_idx: len(np.atleast_1d(self.data[corpus_seq_idx][key]))

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        tag = self.data[corpus_seq_idx].get(_TAG_KEY)
        return f"seq-{corpus_seq_idx}" if tag is None else str(tag)

    def _read_corpus_seq(self, corpus_seq_idx: int) -> Mapping[str, Array]:
        return {key: np.asarray(self.data[corpus_seq_idx][key]) for key in self.data_keys}

    def get_tag(self, sorted_seq_idx: int) -> str:
        return super().get_tag(sorted_seq_idx)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self.data)

    def get_data_keys(self) -> list[str]:
        return self.data_keys

    def get_target_list(self) -> list[str]:
        return self.target_list

    def get_data_dtype(self, key: str) -> str:
        return "string" if self._dtypes[key].kind in "SU" else str(self._dtypes[key])

    def is_data_sparse(self, key: str) -> bool:
        return self.get_num_axes(key) <= 1 and self._dtypes[key].kind in "iu"
