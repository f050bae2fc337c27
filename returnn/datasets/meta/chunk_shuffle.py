"""`ChunkShuffleDataset`: cuts the sequences of another data set into chunks, and mixes the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.registry import DatasetLike
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.core.wrapper import WrapperDataset


class ChunkShuffleDataset(WrapperDataset):
    """
    The chunks, as the option `chunking` of the inner data set makes them, are the sequences here.

    A number of chunks is kept in memory; the next one is drawn from them.
    """

    def __init__(
        self,
        dataset: DatasetLike,
        chunk_shuffle_cache: int = 1000,
        batch_gen_batch_size: int = 5000,
        batch_gen_max_seqs: int = 1,
        batch_gen_recurrent_net: bool = True,
        **kwargs: Any,
    ) -> None:
        """
        :param dataset: options of the other data set
        :param chunk_shuffle_cache: number of chunks to draw from
        :param batch_gen_batch_size: frames that are read at once
        :param batch_gen_max_seqs: chunks that are read at once
        :param batch_gen_recurrent_net: False: frames need no neighbours, so chunks have exactly the batch size
        """
        super().__init__(dataset, **kwargs)
        self.dataset = self._inner
        self.chunk_shuffle_cache = self._positive("chunk_shuffle_cache", chunk_shuffle_cache)
        self.batch_gen_batch_size = batch_gen_batch_size
        self.batch_gen_max_seqs = batch_gen_max_seqs
        self.batch_gen_recurrent_net = batch_gen_recurrent_net
        self.batch_gen: BatchSetGenerator | None = None
        self.rng = np.random.RandomState(1)
        self._chunks: list[tuple[str, dict[str, Any]]] = []

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self.dataset.init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self.rng = np.random.RandomState(self.get_random_seed_for_epoch(epoch or 1) % 2**32)
        self._chunks = []
        self.batch_gen = self.dataset.generate_batches(
            recurrent_net=self.batch_gen_recurrent_net,
            batch_size=self.batch_gen_batch_size,
            max_seqs=self.batch_gen_max_seqs,
        )
        return True

    def is_less_than_num_seqs(self, seq_idx: int) -> bool:
        return super().is_less_than_num_seqs(seq_idx)

    def _read_batch(self) -> bool:
        """:return: whether there was one more"""
        assert self.batch_gen is not None
        if not self.batch_gen.has_more():
            return False
        (batch,) = self.batch_gen.peek_next_n(1)
        assert batch.start_seq is not None
        assert batch.end_seq is not None
        self.dataset.load_seqs(batch.start_seq, batch.end_seq)
        for part in batch.seqs:
            start, end = part.seq_start_frame, part.seq_end_frame
            features = {
                key: self.dataset.get_data_slice(part.seq_idx, key, int(start[key]), int(end[key]))
                for key in self.get_data_keys()
            }
            self._chunks.append((self.dataset.get_tag(part.seq_idx), features))
        self.batch_gen.advance(1)
        return True

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        while len(self._chunks) < self.chunk_shuffle_cache and self._read_batch():
            pass
        if not self._chunks:
            return None
        drawn = self.rng.randint(len(self._chunks))
        self._chunks[drawn], self._chunks[-1] = self._chunks[-1], self._chunks[drawn]
        tag, features = self._chunks.pop()
        return DatasetSeq(seq_idx, features, seq_tag=tag)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        raise self._unknown("the number of chunks")
