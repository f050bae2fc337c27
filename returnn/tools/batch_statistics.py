"""
How the sequences of an epoch are put into batches, how much of these is padding, which option keeps them from being
larger, and how long it takes to load them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_generator import BatchLimits
from returnn.datasets.core.dataset import Dataset
from returnn.util.errors import UserError
from returnn.util.texts.counted import counted


@dataclass(frozen=True)
class BatchStatistics:
    """All batches of an epoch, for one data key."""

    num_seqs: list[int]  # of each batch
    longest: list[int]  # frames
    num_frames: list[int]  # without padding
    key: str
    limited_by: Counter[str] = field(default_factory=Counter)  # option -> number of batches
    load_s: list[float] = field(default_factory=list)  # if they were loaded

    @classmethod
    def collect(
        cls,
        dataset: Dataset,
        batches: Iterable[Batch],
        *,
        key: str,
        end: int | None = None,
        limits: BatchLimits | None = None,
        load: bool = False,
    ) -> BatchStatistics:
        """
        :param dataset: the batches are of it
        :param batches: of an epoch
        :param key: data key
        :param end: number of the sequence to end before
        :param limits: of the batches
        :param load: whether to load their data
        """
        found = cls([], [], [], key)
        last: Batch | None = None
        for batch in batches:
            if end is not None and batch.start_seq is not None and batch.start_seq >= end:
                break
            lengths = [int(seq.frame_length[key]) for seq in batch.seqs]
            found.num_seqs.append(len(lengths))
            found.longest.append(max(lengths))
            found.num_frames.append(sum(lengths))
            if limits is not None and last is not None:
                found.limited_by[limits.what_is_full(last, batch.seqs[0].frame_length) or "other"] += 1
            if load:
                found.load_s.append(_seconds_to_load(dataset, batch))
            last = batch
        if not found.num_seqs:
            raise UserError(f"{dataset.description}: there are no batches.")
        return found

    @property
    def padding(self) -> float:
        """Share of all frames that is padding."""
        total = sum(n * longest for n, longest in zip(self.num_seqs, self.longest, strict=True))
        return 1 - sum(self.num_frames) / total if total else 0.0

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{counted(len(self.num_seqs), 'batch')}, {counted(sum(self.num_seqs), 'sequence')}, "
                f"{counted(sum(self.num_frames), 'frame')} of {self.key!r}",
                f"sequences per batch: {_spread(self.num_seqs)}",
                f"longest sequence of a batch: {_spread(self.longest)}",
                f"frames per batch: {_spread(self.num_frames)}",
                f"padding: {self.padding:.1%} of all frames of {self.key!r}",
                *self._line_of_limits(),
                *self._line_of_loading(),
            ]
        )

    def _line_of_limits(self) -> list[str]:
        total = sum(self.limited_by.values())
        shares = [f"{option} {number / total:.1%}" for option, number in self.limited_by.most_common()]
        return [f"no larger because of: {', '.join(shares)} of the batches"] if shares else []

    def _line_of_loading(self) -> list[str]:
        if not self.load_s:
            return []
        total = sum(self.load_s) or 1e-9
        slowest = int(numpy.argmax(self.load_s))
        return [
            f"loading: {sum(self.num_seqs) / total:.0f} sequences/s, {sum(self.num_frames) / total:.0f} frames/s;"
            f" a batch in {1000 * numpy.median(self.load_s):.1f} ms, the slowest, number {slowest},"
            f" in {1000 * self.load_s[slowest]:.1f} ms"
        ]


def _seconds_to_load(dataset: Dataset, batch: Batch) -> float:
    start = time.perf_counter()
    assert batch.start_seq is not None
    assert batch.end_seq is not None
    dataset.load_seqs(batch.start_seq, batch.end_seq)
    for seq_idx in {part.seq_idx for part in batch.seqs}:
        for key in dataset.get_data_keys():
            dataset.get_data(seq_idx, key)
    return time.perf_counter() - start


def _spread(values: list[int]) -> str:
    return f"{min(values)} to {max(values)}, mean {numpy.mean(values):.1f}, median {numpy.median(values):g}"
