"""What chunking and batches ask a data set for: the sequences of its epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Protocol, TypeAlias

from returnn.util.numbers.numbers_dict import NumbersDict

Chunk: TypeAlias = tuple[int, NumbersDict, NumbersDict]  # sequence, first frame per key, end frame per key
CustomChunking: TypeAlias = Callable[..., Iterator[Chunk]]


class EpochSequences(Protocol):
    """The part of `Dataset` that is valid after `init_seq_order`."""

    epoch: int | None
    chunk_size: NumbersDict
    chunk_step: NumbersDict
    chunking_variance: float
    custom_chunking_func: CustomChunking | None
    min_chunk_size: NumbersDict
    ctx_left: NumbersDict
    ctx_right: NumbersDict

    @property
    def description(self) -> str:
        """The data set, as an error message names it."""

    def get_random_seed_for_epoch(self, epoch: int, num_epochs_fixed: int = 1) -> int:
        """:return: for all random decisions of an epoch"""

    def is_less_than_num_seqs(self, n: int) -> bool:
        """:return: whether the epoch has a sequence of this index"""

    def get_complete_frac(self, sorted_seq_idx: int, *, allow_only_lr_suitable: bool = False) -> float | None:
        """:return: how much of the epoch is done after this sequence, 0 to 1"""

    def get_tag(self, sorted_seq_idx: int) -> str:
        """:return: the name of a sequence"""

    def get_seq_length(self, seq_idx: int) -> NumbersDict:
        """:return: by data key, in frames"""

    def get_start_end_frames_full_seq(self, seq_idx: int) -> tuple[NumbersDict, NumbersDict]:
        """:return: first frame, and frame behind the last one, by data key, with context"""

    def iterate_seqs(
        self, recurrent_net: bool = True, used_data_keys: Collection[str] | None = None
    ) -> Iterator[Chunk]:
        """:return: sequences or chunks, in order"""
