"""
`CachedDataset2`: the base class of most data sets. A class derived from it makes one sequence at a time; the base
class keeps those that are in use.

`SingleStreamPipeDataset` takes its sequences from another thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Condition
from typing import Any

import numpy as np

from returnn.datasets.core.data_check import as_dtype
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.frames import shuffle_frames, windows_of_frames
from returnn.datasets.core.seq_order import SeqOrder
from returnn.util.numbers.numbers_dict import NumbersDict


class CachedDataset2(Dataset):
    """
    Keeps the sequences of the range that is loaded.

    A derived class defines `_collect_single_seq`, and `init_seq_order`, in which it sets `_num_seqs` if it knows it,
    after calling the one here.

    With `_random_access`, `_collect_single_seq` can be called for any sequence. Otherwise it is called for one after
    the other, and to go back, the epoch is started anew.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._num_seqs: int | None = None
        self._num_timesteps: int | NumbersDict | None = None
        self.added_data: list[DatasetSeq] = []
        self.expected_load_seq_start = 0
        self.reached_final_seq = False
        self._epoch_args: tuple[int | None, Sequence[str] | None, SeqOrder | None] = (None, None, None)

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        changed = super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._epoch_args = (epoch, seq_list, seq_order)
        self._clear_cache(0)
        return changed

    def _clear_cache(self, start: int) -> None:
        self.added_data = []
        self.expected_load_seq_start = start
        self.reached_final_seq = False

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        """
        :param seq_idx: in the order of the epoch
        :return: the sequence, None if the epoch has no such one
        """
        raise self._unknown("how to get a sequence")

    # Loading.

    @property
    def _loaded_end(self) -> int:
        return self.expected_load_seq_start + len(self.added_data)

    def is_cached(self, start: int, end: int) -> bool:
        return start == end or (start >= self.expected_load_seq_start and end <= self._loaded_end)

    def load_seqs(self, start: int, end: int) -> None:
        assert 0 <= start <= end
        with self.lock:
            self._move_start(start)
            self._load_until(end)

    def _move_start(self, start: int) -> None:
        if start < self.expected_load_seq_start:
            self._go_back(start)
        elif start <= self._loaded_end:
            self.added_data = self.added_data[start - self.expected_load_seq_start :]
            self.expected_load_seq_start = start
        elif self.supports_random_access:
            self._clear_cache(start)
        else:
            while self._loaded_end < start and self._load_next_block():
                skipped = min(start - self.expected_load_seq_start, len(self.added_data))
                self.added_data = self.added_data[skipped:]
                self.expected_load_seq_start += skipped

    def _go_back(self, start: int) -> None:
        if self.supports_random_access:
            self._clear_cache(start)
            return
        epoch, seq_list, seq_order = self._epoch_args
        self.init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._move_start(start)

    def _load_until(self, end: int) -> None:
        while self._loaded_end < end and self._load_next_block():
            pass

    def _load_next_block(self) -> bool:
        """:return: whether there was one more sequence"""
        if self.reached_final_seq:
            return False
        if self.shuffle_frames_of_nseqs:
            return self._load_shuffled_block()
        seq = self._collect_and_check(self._loaded_end)
        if seq is None:
            self.reached_final_seq = True
            return False
        self.added_data.append(seq)
        return True

    def _load_shuffled_block(self) -> bool:
        """The blocks begin at multiples of their size, so that they do not depend on where loading has started."""
        size = self.shuffle_frames_of_nseqs
        start = self._loaded_end // size * size
        block = []
        for seq_idx in range(start, start + size):
            seq = self._collect_and_check(seq_idx)
            if seq is None:
                self.reached_final_seq = True
                break
            block.append(seq)
        seed = [self.get_random_seed_for_epoch(self.epoch or 1) % 2**32, start]
        shuffle_frames(block, np.random.RandomState(seed), description=self.description)
        new = block[self._loaded_end - start :]
        self.added_data += new
        return bool(new)

    def _collect_and_check(self, seq_idx: int) -> DatasetSeq | None:
        if self._num_seqs is not None and seq_idx >= self._num_seqs:
            return None
        self._watched_files.check_from_time_to_time()
        try:
            seq = self._collect_single_seq(seq_idx)
        except Exception:
            self._watched_files.check()  # if that is why, it is the better message
            raise
        if seq is None:
            return None
        assert seq.seq_idx == seq_idx, f"{self.description}: got sequence {seq.seq_idx} instead of {seq_idx}"
        if self.window > 1:
            seq.features[DEFAULT_KEY] = windows_of_frames(seq.features[DEFAULT_KEY], self.window)
        if self._checks_data:
            self.check_seq(seq)
        return seq

    def _get_seq(self, seq_idx: int) -> DatasetSeq | None:
        """:return: the sequence, which gets loaded if it is not yet; None if there is none"""
        with self.lock:
            if seq_idx < self.expected_load_seq_start:
                self._go_back(seq_idx)
            self._load_until(seq_idx + 1)
            if seq_idx >= self._loaded_end:
                return None
            return self.added_data[seq_idx - self.expected_load_seq_start]

    def _get_existing_seq(self, seq_idx: int) -> DatasetSeq:
        seq = self._get_seq(seq_idx)
        if seq is None:
            raise IndexError(f"{self.description}: epoch {self.epoch} has no sequence {seq_idx}")
        return seq

    # The documented interface on top of it.

    def is_less_than_num_seqs(self, n: int) -> bool:
        if self._has_seq(n):
            return True
        self.check_files()  # so that no sub-epoch ends well that had other data
        return False

    def _has_seq(self, n: int) -> bool:
        if self._num_seqs is not None:
            return n < self._num_seqs
        with self.lock:
            return n < self.expected_load_seq_start or self._get_seq(n) is not None

    @property
    def num_seqs(self) -> int:
        if self._num_seqs is not None:
            return self._num_seqs
        if self.reached_final_seq and (self.added_data or not self.supports_random_access):
            return self._loaded_end
        raise self._unknown("the number of sequences")

    def get_num_timesteps(self) -> int | NumbersDict:
        if self._num_timesteps is None:
            raise self._unknown("the number of frames")
        return self._num_timesteps

    def get_seq_length(self, sorted_seq_idx: int) -> NumbersDict:
        return self._get_existing_seq(sorted_seq_idx).num_frames

    def get_data(self, seq_idx: int, key: str) -> Array:
        return self._get_existing_seq(seq_idx).get_data(key)

    def get_input_data(self, seq_idx: int) -> Array:
        return self.get_data(seq_idx, DEFAULT_KEY)

    def get_targets(self, target: str, seq_idx: int) -> Array:
        return self.get_data(seq_idx, target)

    def get_tag(self, sorted_seq_idx: int) -> str:
        return self._get_existing_seq(sorted_seq_idx).seq_tag

    def get_complete_frac(self, sorted_seq_idx: int, **kwargs: Any) -> float | None:
        seq = None
        if self.is_cached(sorted_seq_idx, sorted_seq_idx + 1):
            seq = self.added_data[sorted_seq_idx - self.expected_load_seq_start]
        if seq is not None and seq.complete_frac is not None:
            return seq.complete_frac
        return super().get_complete_frac(sorted_seq_idx, **kwargs)

    def get_data_keys(self) -> list[str]:
        """:return: "data" first, as the others are its targets"""
        keys = self.num_outputs or [DEFAULT_KEY]
        return sorted(keys, key=lambda key: (key != DEFAULT_KEY, key))

    def get_target_list(self) -> list[str]:
        return [key for key in self.get_data_keys() if key != DEFAULT_KEY]

    def get_data_dim(self, key: str) -> int:
        dim = super().get_data_dim(key)
        return dim * self.window if key == DEFAULT_KEY else dim


class SingleStreamPipeDataset(CachedDataset2):
    """One data key, "data". A producer, in another thread, adds sequences; `_collect_single_seq` waits for them."""

    def __init__(self, dim: int, ndim: int, sparse: bool = False, dtype: str = "float32") -> None:
        """
        :param dim: number of features or labels
        :param ndim: axes of the data of one sequence, with time
        :param sparse: whether these are labels
        :param dtype: of the data, numpy name
        """
        super().__init__()
        self.num_inputs = dim
        self.num_outputs = {DEFAULT_KEY: (dim, ndim)}
        self.sparse = sparse
        self.dtype = dtype
        self.condition = Condition(lock=self.lock)
        self.producer_seq_idx = 0
        self.producer_data: list[DatasetSeq] = []
        self.producer_finished = False

    def is_data_sparse(self, key: str) -> bool:
        return self.sparse

    def get_data_dtype(self, key: str) -> str:
        return self.dtype

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        """:raises ValueError: with `seq_list` or `seq_order`: the order is that of the producer"""
        if seq_list is not None or seq_order is not None:
            raise ValueError(f"{self.description}: the order of the sequences is that of the producer")
        with self.condition:
            super().init_seq_order(epoch=epoch)
            self.producer_seq_idx = 0
            self.producer_data = []
            self.producer_finished = False
        return True

    def producer_add_data(self, data: Array, seq_tag: str | None = None) -> None:
        """
        Adds a sequence. Called by the producer.

        :param data: (time, ...), becomes of the `dtype`
        :param seq_tag: by default "seq-{n}"
        """
        with self.condition:
            seq = DatasetSeq(self.producer_seq_idx, data, seq_tag=seq_tag)
            seq.features = {
                key: as_dtype(value, self.dtype, dataset=self.description, seq=seq.seq_tag, key=key)
                for key, value in seq.features.items()
            }
            self.producer_data.append(seq)
            self.producer_seq_idx += 1
            self.condition.notify_all()

    def producer_set_finished(self) -> None:
        """Says that there will be no more sequences. Called by the producer."""
        with self.condition:
            self.producer_finished = True
            self.condition.notify_all()

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        with self.condition:
            self.condition.wait_for(lambda: self.producer_data or self.producer_finished)
            return self.producer_data.pop(0) if self.producer_data else None

    def _go_back(self, start: int) -> None:
        raise IndexError(f"{self.description}: sequence {start} is gone, and the producer makes it only once")
