"""Puts the sequences of an epoch into batches, within the limits of the config."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.data_check import empty_seqs, end_with_a_frame
from returnn.datasets.core.epoch_sequences import Chunk, EpochSequences
from returnn.datasets.core.errors import DataError
from returnn.util.numbers.numbers_dict import NumbersDict, NumbersLike

NO_LIMIT = sys.maxsize


@dataclass(frozen=True)
class BatchLimits:
    """
    The limits of one batch. Numbers of frames can be given per data key.

    `batch_size` bounds the frames with padding, `max_pad_size` the padding alone. Sequences longer than
    `max_seq_length` or shorter than `min_seq_length` are left out.
    """

    batch_size: NumbersDict
    max_seqs: int = NO_LIMIT
    max_seq_length: NumbersDict = field(default_factory=lambda: NumbersDict(NO_LIMIT))
    min_seq_length: NumbersDict = field(default_factory=lambda: NumbersDict(0))
    max_pad_size: NumbersDict = field(default_factory=lambda: NumbersDict(NO_LIMIT))
    max_total_num_seqs: int = NO_LIMIT
    seq_drop: float = 0.0

    @classmethod
    def of(
        cls,
        *,
        batch_size: NumbersLike = 1,
        max_seqs: int | None = None,
        max_seq_length: NumbersLike = None,
        min_seq_length: NumbersLike = None,
        max_pad_size: NumbersLike = None,
        max_total_num_seqs: int | None = None,
        seq_drop: float = 0.0,
    ) -> BatchLimits:
        """Takes the forms that configs have: None, -1 (both: no limit), one number, or numbers by key."""
        return cls(
            batch_size=_frames(batch_size, NO_LIMIT),
            max_seqs=_no_limit_if_unset(max_seqs),
            max_seq_length=_frames(max_seq_length, NO_LIMIT),
            min_seq_length=_frames(min_seq_length, 0),
            max_pad_size=_frames(max_pad_size, NO_LIMIT),
            max_total_num_seqs=_no_limit_if_unset(max_total_num_seqs),
            seq_drop=seq_drop,
        )

    def accepts_seq(self, length: NumbersDict) -> bool:
        """:return: whether the sequence takes part at all"""
        return self.what_leaves_out(length) is None

    def what_leaves_out(self, length: NumbersDict) -> str | None:
        """:return: the option that leaves the sequence out because of its length; None: it takes part"""
        if length.any_compare(self.max_seq_length, lambda frames, limit: frames > limit):
            return "max_seq_length"
        return "min_seq_length" if length.any_compare(self.min_seq_length, lambda n, limit: n < limit) else None

    @property
    def leaves_out_empty(self) -> bool:
        """Whether sequences without frames in some data key may be left out."""
        limits = self.min_seq_length
        return any(limit > 0 for limit in [*limits.values(), limits.value or 0])

    def has_room(self, batch: Batch, length: NumbersDict) -> bool:
        """:return: whether one more sequence fits into a batch that has some already"""
        return self.what_is_full(batch, length) is None

    def what_is_full(self, batch: Batch, length: NumbersDict) -> str | None:
        """:return: the option that keeps one more sequence out of a batch that has some already; None: it has room"""
        frames_per_slice, num_slices = batch.try_sequence_as_slice(length)
        if num_slices > self.max_seqs:
            return "max_seqs"
        padded = frames_per_slice * num_slices
        padding = padded - (batch.get_total_num_frames() + length)
        if padded.any_compare(self.batch_size, lambda frames, limit: frames > limit):
            return "batch_size"
        return "max_pad_size" if padding.any_compare(self.max_pad_size, lambda frames, limit: frames > limit) else None


def _frames(frames: NumbersLike, default: int) -> NumbersDict:
    numbers = NumbersDict(frames)
    if numbers.value is None:
        numbers.value = default
    return numbers.unary_op(lambda number: default if number < 0 else number)


def _no_limit_if_unset(number: int | None) -> int:
    return NO_LIMIT if number is None or number < 0 else number


def generate_batches(
    dataset: EpochSequences,
    limits: BatchLimits,
    *,
    recurrent_net: bool = True,
    used_data_keys: Collection[str] | None = None,
    left_out: Counter[str] | None = None,
) -> Iterator[Batch]:
    """
    :param dataset: after `init_seq_order`
    :param limits: of each batch. A sequence that is larger than a whole batch becomes a batch of its own.
    :param recurrent_net: False: frames need no neighbours, so batches are filled up with frames, without padding
    :param used_data_keys: whose lengths count; None: all
    :param left_out: counts the sequences which are left out because of their length, by the option that does it
    """
    batch = Batch()
    num_seqs = 0
    last_seq_idx = None
    drop_rng = np.random.RandomState(dataset.get_random_seed_for_epoch(dataset.epoch or 1) % 2**32)
    for seq_idx, start, end in _loaded(dataset, limits, recurrent_net=recurrent_net, used_data_keys=used_data_keys):
        if seq_idx != last_seq_idx:
            last_seq_idx = seq_idx
            if num_seqs >= limits.max_total_num_seqs:
                break
            dropped = limits.seq_drop > 0 and drop_rng.random_sample() < limits.seq_drop
            reason = None if dropped else limits.what_leaves_out(_used(dataset.get_seq_length(seq_idx), used_data_keys))
            accepted = not dropped and reason is None
            num_seqs += accepted
            if accepted:
                empty_seqs.check(dataset.get_tag(seq_idx), dataset.get_seq_length(seq_idx))
            if reason is not None and left_out is not None:
                left_out[reason] += 1
        if not accepted:
            continue
        start, end = _with_context(dataset, start, end, used_data_keys)
        end = end_with_a_frame(end, dataset, seq_idx)
        if recurrent_net:
            if batch.seqs and not limits.has_room(batch, end - start):
                yield batch
                batch = Batch()
            batch.add_sequence_as_slice(seq_idx, start, end - start)
        else:
            batch = yield from _fill_with_frames(dataset, limits, batch, seq_idx, start, end)
    if batch.seqs:
        yield batch


def _loaded(dataset: EpochSequences, limits: BatchLimits, **options: Any) -> Iterator[Chunk]:
    """:return: as `iterate_seqs`. Empty sequences are no error yet if they may be too short"""
    chunks = dataset.iterate_seqs(**options)
    is_limited = limits.leaves_out_empty
    while True:
        with empty_seqs.wait(is_needed=is_limited):
            chunk = next(chunks, None)
            if chunk is not None:
                dataset.get_seq_length(chunk[0])
        if chunk is None:
            return
        yield chunk


def _used(lengths: NumbersDict, used_data_keys: Collection[str] | None) -> NumbersDict:
    if used_data_keys is None:
        return lengths
    return NumbersDict({key: lengths[key] for key in used_data_keys if lengths.has_value_for(key)})


def _with_context(
    dataset: EpochSequences, start: NumbersDict, end: NumbersDict, used_data_keys: Collection[str] | None
) -> tuple[NumbersDict, NumbersDict]:
    """:return: a chunk with the frames around it. A whole sequence has them already."""
    start, end = _used(start, used_data_keys), _used(end, used_data_keys)
    if not dataset.chunk_size and dataset.custom_chunking_func is None:
        return start, end
    left = NumbersDict({key: dataset.ctx_left[key] for key in start})
    right = NumbersDict({key: dataset.ctx_right[key] for key in end})
    return start - left, end + right


def _fill_with_frames(
    dataset: EpochSequences, limits: BatchLimits, batch: Batch, seq_idx: int, start: NumbersDict, end: NumbersDict
) -> Generator[Batch, None, Batch]:
    """Cuts one sequence wherever a batch is full. Returns the batch to go on with."""
    length = end - start
    if len(set(length.values())) > 1:
        raise DataError(
            f"lengths differ per data key: {length.dict}",
            dataset=dataset.description,
            seq=dataset.get_tag(seq_idx),
            hint="Batches of single frames need the same number of frames in each data key.",
        )
    size = int(limits.batch_size.min_value())
    rest = int(length.max_value())
    while rest > 0:
        room = size - int(batch.max_num_frames_per_slice.max_value())
        if room <= 0:
            yield batch
            batch = Batch()
            continue
        taken = min(room, rest)
        batch.add_frames(seq_idx, start, NumbersDict.constant_like(taken, length))
        start = start + NumbersDict.constant_like(taken, length)
        rest -= taken
    return batch


class BatchSetGenerator:
    """
    The batches of one epoch: makes them as they are needed, and can go through them again.

    Looks ahead with `peek_next_n`, and goes on with `advance`.
    """

    def __init__(
        self,
        dataset: EpochSequences,
        generator: Iterator[Batch],
        shuffle_batches: bool = False,
        cache_whole_epoch: bool = True,
        left_out: Counter[str] | None = None,
    ) -> None:
        """
        :param dataset: what the batches are of
        :param generator: yields the batches of the epoch once
        :param shuffle_batches: whether to go through them in random order, the same for each run of the epoch
        :param cache_whole_epoch: whether `reset` may be used to go through them again. Keeps positions, no data.
        :param left_out: see `generate_batches`; it is complete when all batches are known
        """
        self.dataset = dataset
        self.generator = generator
        self.left_out = Counter[str]() if left_out is None else left_out
        self.shuffle_batches = shuffle_batches
        self.cache_whole_epoch = cache_whole_epoch
        self.cache: list[Batch] = []
        self.cache_active = False
        self.buffer: list[Batch] = []
        self.last_batch: Batch | None = None
        self.reached_end = False
        self.current_batch_idx = 0
        self.checksum = 0  # of the batches that are done
        if shuffle_batches:
            self._read_all_and_shuffle()

    def _read_all_and_shuffle(self) -> None:
        self._read_up_to(NO_LIMIT)
        random.Random(self.dataset.get_random_seed_for_epoch(self.dataset.epoch or 1)).shuffle(self.buffer)

    def keep_every(self, step: int, *, first: int) -> None:
        """
        Leaves out the others, as other processes take them. To be called before the first batch is looked at.

        :param step: one of so many is kept
        :param first: number of the first one that is kept, from 0
        """
        self.generator = itertools.islice(self.generator, first, None, step)
        self.buffer = self.buffer[first::step]

    def reset(self) -> None:
        """
        Starts again at the first batch.

        :raises ValueError: if batches are gone already, as `cache_whole_epoch` is not set
        """
        if not self.cache_whole_epoch and self.current_batch_idx > 0:
            raise ValueError("cannot start again: the batches of this epoch were not kept (cache_whole_epoch=False)")
        if self.cache_whole_epoch:
            self.buffer = self.cache + self.buffer
            self.cache = []
        self.cache_active = self.cache_whole_epoch
        self.reached_end = False
        self.last_batch = None
        self.current_batch_idx = 0
        self.checksum = 0

    def _read_up_to(self, n: int) -> None:
        while len(self.buffer) < n and not self.reached_end:
            batch = next(self.generator, None)
            if batch is None:
                self.reached_end = True
            else:
                self.buffer.append(batch)

    def peek_next_n(self, n: int) -> list[Batch]:
        """:return: the next `n` batches, less at the end of the epoch"""
        self._read_up_to(n)
        return self.buffer[:n]

    def advance(self, n: int) -> None:
        """Goes `n` batches on."""
        self._read_up_to(n)
        assert n <= len(self.buffer), "there are not that many batches left"
        passed, self.buffer = self.buffer[:n], self.buffer[n:]
        if self.cache_whole_epoch:
            self.cache += passed
        self.last_batch = passed[-1] if passed else self.last_batch
        for batch in passed:
            self.checksum = batch.checksum(self.dataset, self.checksum)
        self.current_batch_idx += n

    def completed_frac(self) -> float:
        """:return: how much of the epoch is done, 0 to 1"""
        if self.last_batch is None:
            return 0.0
        if self.shuffle_batches:
            return self.current_batch_idx / (self.current_batch_idx + len(self.buffer))
        assert self.last_batch.end_seq is not None
        frac = self.dataset.get_complete_frac(self.last_batch.end_seq - 1)
        return 1.0 if frac is None else frac

    def has_more(self) -> bool:
        """:return: whether there is one more batch"""
        self._read_up_to(1)
        return bool(self.buffer)

    def get_current_batch_idx(self) -> int:
        """:return: how many batches are done"""
        return self.current_batch_idx
