"""How the sequences of an epoch are put into batches, and how much of these is padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.dataset import Dataset
from returnn.util.errors import UserError


@dataclass(frozen=True)
class BatchStatistics:
    """All batches of an epoch, for one data key."""

    num_seqs: list[int]  # of each batch
    longest: list[int]  # frames
    num_frames: list[int]  # without padding

    @classmethod
    def collect(
        cls, dataset: Dataset, batches: Iterable[Batch], *, key: str, end: int | None = None
    ) -> BatchStatistics:
        """
        :param dataset: the batches are of it
        :param batches: of an epoch
        :param key: data key
        :param end: number of the sequence to end before
        """
        found = cls([], [], [])
        for batch in batches:
            if end is not None and batch.start_seq is not None and batch.start_seq >= end:
                break
            lengths = [int(seq.frame_length[key]) for seq in batch.seqs]
            found.num_seqs.append(len(lengths))
            found.longest.append(max(lengths))
            found.num_frames.append(sum(lengths))
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
                f"{len(self.num_seqs)} batches, {sum(self.num_seqs)} sequences, {sum(self.num_frames)} frames",
                f"sequences per batch: {_spread(self.num_seqs)}",
                f"longest sequence of a batch: {_spread(self.longest)}",
                f"frames per batch: {_spread(self.num_frames)}",
                f"padding: {self.padding:.1%} of all frames",
            ]
        )


def _spread(values: list[int]) -> str:
    return f"{min(values)} to {max(values)}, mean {numpy.mean(values):.1f}, median {numpy.median(values):g}"
