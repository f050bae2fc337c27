"""`GeneratingDataset`: sequences that are computed instead of read. The base class of all artificial tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.data_dims import DataDim, convert_data_dims
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, DatasetSeq
from returnn.datasets.core.seq_order import SeqOrder
from returnn.util.errors import ConfigError
from returnn.util.numbers.numbers_dict import NumbersDict


class GeneratingDataset(CachedDataset2):
    """
    A derived class defines `generate_seq`, which gives a `DatasetSeq`, and takes its random numbers from `self.random`.

    In the config, it is the value of "class": `{"class": MyDataset, "num_seqs": 1000}`.

    That is seeded for each sequence, from the epoch and the position of the sequence. So any sequence can be made at
    any time. Each (full) epoch has new sequences; with `fixed_random_seed`, they are always the same ones.
    """

    _random_access = True

    def __init__(
        self,
        input_dim: int | None,
        output_dim: int | Mapping[str, DataDim],
        num_seqs: float = math.inf,
        **kwargs: Any,
    ) -> None:
        """
        :param input_dim: number of features of "data"; None: `output_dim` has the key "data" itself, or there is none
        :param output_dim: number of labels of "classes", or a dict by data key (see `convert_data_dims`)
        :param num_seqs: in each epoch; infinite by default
        """
        super().__init__(**kwargs)
        self.num_inputs = input_dim or 0
        outputs = convert_data_dims(output_dim)
        if input_dim is not None:
            outputs.setdefault(DEFAULT_KEY, (input_dim, 2))
        self.num_outputs = outputs
        self.random = np.random.RandomState(1)
        self._total_num_seqs = num_seqs
        self._seq_order: SeqOrder | None = None
        if math.isinf(num_seqs) and (self.seq_ordering != "default" or self.partition_epoch > 1):
            raise ConfigError(
                f"{self.description}: 'seq_ordering' and 'partition_epoch' need a finite number of sequences.\n"
                "  Give the option 'num_seqs'."
            )

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        if seq_list is not None:
            seq_order = [self._corpus_index_of_tag(tag) for tag in seq_list]
        if seq_order is None and not math.isinf(self._total_num_seqs):
            seq_order = self.get_seq_order_for_epoch(epoch, int(self._total_num_seqs), self._generated_length)
        self._seq_order = seq_order
        self._num_seqs = None if seq_order is None else len(seq_order)
        return True

    def _corpus_index_of_tag(self, tag: str) -> int:
        number = tag.removeprefix("seq-")
        if not number.isdigit() or int(number) >= self._total_num_seqs:
            raise ConfigError(f"{self.description}: there is no sequence {tag!r}. Tags are 'seq-0', 'seq-1', ...")
        return int(number)

    def _generated_length(self, corpus_seq_idx: int) -> int:
        return int(self._generate(corpus_seq_idx).num_frames.max_value())

    def _generate(self, corpus_seq_idx: int) -> DatasetSeq:
        seed = self.get_random_seed_for_epoch(self.epoch or 1, self.partition_epoch) % 2**32
        self.random.seed([seed, corpus_seq_idx])
        return self.generate_seq(corpus_seq_idx)

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        """
        :param seq_idx: in the corpus
        :return: its data: `DatasetSeq(seq_idx, {"data": array, ...})`, of `returnn.datasets`
        """
        raise self._unknown("how to generate a sequence")

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq:
        seq = self._generate(self.get_corpus_seq_idx(seq_idx))
        seq.seq_idx = seq_idx
        return seq

    @property
    def num_seqs(self) -> int:
        """Infinite if there is no limit; before the first epoch, of the corpus."""
        return self.get_total_num_seqs() if self._num_seqs is None else self._num_seqs

    def is_less_than_num_seqs(self, n: int) -> bool:
        return n < self.num_seqs

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return self._total_num_seqs if math.isinf(self._total_num_seqs) else int(self._total_num_seqs)  # type: ignore[return-value]

    def get_all_tags(self) -> list[str]:
        if math.isinf(self._total_num_seqs):
            raise self._unknown("the list of all tags")
        return [f"seq-{i}" for i in range(int(self._total_num_seqs))]

    def get_tag(self, seq_idx: int) -> str:
        return f"seq-{self.get_corpus_seq_idx(seq_idx)}"

    def get_seq_length(self, seq_idx: int) -> NumbersDict:
        return super().get_seq_length(seq_idx)

    def have_corpus_seq_idx(self) -> bool:
        return True

    def get_corpus_seq_idx(self, seq_idx: int) -> int:
        return seq_idx if self._seq_order is None else int(self._seq_order[seq_idx])

    def get_current_seq_order(self) -> SeqOrder:
        if self._seq_order is None:
            raise self._unknown("the order of an infinite number of sequences")
        return self._seq_order

    def have_get_corpus_seq(self) -> bool:
        return True

    def get_corpus_seq(self, corpus_seq_idx: int) -> DatasetSeq:
        with self.lock:
            seq = self._generate(corpus_seq_idx)
        seq.seq_tag = f"seq-{corpus_seq_idx}"
        return seq

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        return self._generated_length(seq_idx)

    def supports_seq_order_sorting(self) -> bool:
        return not math.isinf(self._total_num_seqs)

    def supports_sharding(self) -> bool:
        return not math.isinf(self._total_num_seqs)
