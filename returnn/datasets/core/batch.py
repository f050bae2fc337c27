"""
`Batch`: which frames of which sequences are computed together. It holds positions, no data.

A batch has slices, the entries of its batch dim. Usually one slice is one sequence (or chunk), padded to the longest.
Without recurrency, frames need no neighbours, and one slice takes the frames of many sequences.
"""

from __future__ import annotations

import zlib

from returnn.datasets.core.epoch_sequences import EpochSequences
from returnn.util.numbers.numbers_dict import NumbersDict, NumbersLike


class BatchSeqCopyPart:
    """A range of frames of one sequence, and where it goes in the batch."""

    def __init__(
        self,
        seq_idx: int,
        seq_start_frame: NumbersLike,
        seq_end_frame: NumbersLike,
        batch_slice: int,
        batch_frame_offset: NumbersLike,
    ) -> None:
        """
        :param seq_idx: in the order of the epoch
        :param seq_start_frame: first frame per data key; negative where context reaches before the sequence
        :param seq_end_frame: end per data key, exclusive
        :param batch_slice: position in the batch dim
        :param batch_frame_offset: first frame in that slice, per data key
        """
        self.seq_idx = seq_idx
        self.seq_start_frame = NumbersDict(seq_start_frame)
        self.seq_end_frame = NumbersDict(seq_end_frame)
        self.batch_slice = batch_slice
        self.batch_frame_offset = NumbersDict(batch_frame_offset)

    @property
    def frame_length(self) -> NumbersDict:
        """Number of frames per data key."""
        return self.seq_end_frame - self.seq_start_frame

    def __repr__(self) -> str:
        return (
            f"BatchSeqCopyPart(seq {self.seq_idx}, frames {self.seq_start_frame} to {self.seq_end_frame},"
            f" slice {self.batch_slice}, offset {self.batch_frame_offset})"
        )


class Batch:
    """What is computed together: a list of `BatchSeqCopyPart`."""

    def __init__(self) -> None:
        self.max_num_frames_per_slice = NumbersDict(0)
        self.num_slices = 0
        self.seqs: list[BatchSeqCopyPart] = []

    def try_sequence_as_slice(self, length: NumbersLike) -> tuple[NumbersDict, int]:
        """
        :param length: of one more sequence
        :return: frames per slice and number of slices that the batch would have with it
        """
        return NumbersDict.max([self.max_num_frames_per_slice, length]), self.num_slices + 1

    def add_sequence_as_slice(self, seq_idx: int, seq_start_frame: NumbersLike, length: NumbersLike) -> None:
        """Adds a range of frames as a slice of its own."""
        self.max_num_frames_per_slice, self.num_slices = self.try_sequence_as_slice(length)
        end = NumbersDict(seq_start_frame) + length
        self.seqs.append(BatchSeqCopyPart(seq_idx, seq_start_frame, end, self.num_slices - 1, 0))

    def add_frames(
        self, seq_idx: int, seq_start_frame: NumbersLike, length: NumbersLike, frame_dim_corresponds: bool = True
    ) -> None:
        """
        Appends frames to the one slice of the batch.

        :param seq_idx: in the order of the epoch
        :param seq_start_frame: first frame per data key
        :param length: number of frames per data key
        :param frame_dim_corresponds: whether frame t of all keys belong together, so that all of them start at the
            same position in the slice
        """
        length = NumbersDict(length)
        offset = self.max_num_frames_per_slice.copy()
        if frame_dim_corresponds:
            offset = NumbersDict(offset.max_value())
        self.seqs.append(BatchSeqCopyPart(seq_idx, seq_start_frame, NumbersDict(seq_start_frame) + length, 0, offset))
        self.num_slices = 1
        self.max_num_frames_per_slice = offset + length

    def init_with_one_full_sequence(self, seq_idx: int, dataset: EpochSequences) -> None:
        """Makes an empty batch one of a single sequence, with its context."""
        assert not self.seqs
        start, end = dataset.get_start_end_frames_full_seq(seq_idx)
        self.add_sequence_as_slice(seq_idx, start, end - start)

    def get_all_slices_num_frames(self) -> NumbersDict:
        """:return: frames of the padded batch per data key: this is what memory and time depend on"""
        return self.max_num_frames_per_slice * self.num_slices

    def get_total_num_frames(self) -> NumbersDict:
        """:return: frames per data key without padding"""
        return sum((part.frame_length for part in self.seqs), NumbersDict())

    def checksum(self, dataset: EpochSequences, before: int = 0) -> int:
        """
        :param dataset: whose sequences they are; their tags count, as another order may have the same lengths
        :param before: checksum of the batches before
        :return: of those and this one: which frames of which sequences they have
        """
        tags = {seq_idx: dataset.get_tag(seq_idx) for seq_idx in sorted({part.seq_idx for part in self.seqs})}
        parts = [
            (part.batch_slice, tags[part.seq_idx], _plain(part.seq_start_frame), _plain(part.seq_end_frame))
            for part in self.seqs
        ]
        return zlib.crc32(repr(parts).encode("utf8"), before)

    def get_num_seqs(self) -> int:
        """:return: how many sequences it has frames of"""
        return len({part.seq_idx for part in self.seqs})

    @property
    def start_seq(self) -> int | None:
        """First sequence, in the order of the epoch; None for an empty batch."""
        return min((part.seq_idx for part in self.seqs), default=None)

    @property
    def end_seq(self) -> int | None:
        """After the last sequence; None for an empty batch."""
        return max((part.seq_idx + 1 for part in self.seqs), default=None)

    def __repr__(self) -> str:
        frames = self.max_num_frames_per_slice
        return f"Batch(seqs {self.start_seq} to {self.end_seq}, {self.num_slices} slices of {frames} frames)"


def _plain(numbers: NumbersDict) -> tuple[int | None, list[tuple[str, int]]]:
    """:return: the same text for the same numbers, in each process"""
    value = None if numbers.value is None else int(numbers.value)
    return value, sorted((key, int(number)) for key, number in numbers.dict.items())
