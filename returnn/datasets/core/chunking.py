"""
Cutting sequences into chunks: the option `chunking` and what goes with it.

A chunk has its own range of frames per data key, since labels may run at another rate than the features.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from returnn.datasets.core.dataset_seq import DEFAULT_KEY
from returnn.datasets.core.epoch_sequences import Chunk, CustomChunking, EpochSequences
from returnn.datasets.core.errors import DataError
from returnn.util.errors import ConfigError
from returnn.util.numbers.numbers_dict import Number, NumbersDict

Size: TypeAlias = int | Mapping[str, int] | NumbersDict
ChunkingOption: TypeAlias = str | Size | tuple[Size, Size] | list[Size] | CustomChunking | None


@dataclass(frozen=True)
class Chunking:
    """How to cut: both sizes in frames per key. A size of 0 says that the key is not cut."""

    size: NumbersDict
    step: NumbersDict
    custom: CustomChunking | None = None


def parse_chunking(option: ChunkingOption, *, where: str) -> Chunking:
    """
    :param option: size, or "size:step", or (size, step). Each of them may be a dict by data key.
        Or a function `(dataset, seq_idx_start, recurrent_net, used_data_keys, **kwargs)` that yields chunks.
    :param where: for errors, the data set
    :raises ConfigError: if it is none of these
    """
    if callable(option):
        return Chunking(NumbersDict(0), NumbersDict(0), option)
    parts: list[object]
    if isinstance(option, str):
        parts = list(option.split(":"))
    elif isinstance(option, tuple | list):
        parts = list(option)
    else:
        parts = [0 if option is None else option]
    if len(parts) not in (1, 2):
        raise _bad_chunking(option, where)
    sizes = [_parse_size(part, option, where) for part in parts]
    size, step = sizes[0], sizes[-1]
    if any(number < 0 for number in size.values()) or any(
        (step.get(key) or 0) <= 0 for key, number in size.items() if number
    ):
        raise _bad_chunking(option, where)
    if size.value and (step.value or 0) <= 0:
        raise _bad_chunking(option, where)
    return Chunking(size, step)


def _parse_size(size: object, option: object, where: str) -> NumbersDict:
    if isinstance(size, str) and size.strip().isdigit():
        return NumbersDict(int(size))
    if isinstance(size, NumbersDict):
        return size.copy()
    if isinstance(size, Mapping):
        # A key that is not listed is not cut.
        return NumbersDict(size, broadcast_value=0)
    if isinstance(size, int) and not isinstance(size, bool):
        return NumbersDict(size)
    raise _bad_chunking(option, where)


def _bad_chunking(option: object, where: str) -> ConfigError:
    return ConfigError(
        f"{where}: option 'chunking': {option!r} is not possible.\n"
        "  Possible: a size in frames, 'size:step' with a step over 0, a pair (size, step), each of them also as a\n"
        "  dict by data key, or a function."
    )


def iterate_seqs(
    dataset: EpochSequences, *, recurrent_net: bool = True, used_data_keys: Collection[str] | None = None
) -> Iterator[Chunk]:
    """
    :param dataset: after `init_seq_order`
    :param recurrent_net: False: no chunks, as frames are taken one by one anyway
    :param used_data_keys: only their lengths count; None: all
    :return: whole sequences or chunks, in the order of the epoch
    """
    if dataset.custom_chunking_func is not None:
        yield from dataset.custom_chunking_func(
            dataset=dataset, seq_idx_start=0, recurrent_net=recurrent_net, used_data_keys=used_data_keys
        )
        return
    size, step = NumbersDict(dataset.chunk_size), NumbersDict(dataset.chunk_step)
    seq_idx = 0
    while dataset.is_less_than_num_seqs(seq_idx):
        if recurrent_net and size:
            yield from _chunks_of_seq(dataset, seq_idx, _varied(dataset, seq_idx, size, step), used_data_keys)
        else:
            yield seq_idx, *dataset.get_start_end_frames_full_seq(seq_idx)
        seq_idx += 1


def check_chunks(dataset: EpochSequences, seq_idx: int, used_data_keys: Collection[str]) -> None:
    """
    :param dataset: after `init_seq_order`
    :param seq_idx: of a sequence that is loaded
    :param used_data_keys: only their lengths count
    :raises DataError: if the training cannot cut this sequence, as its keys would have other numbers of chunks
    """
    size = NumbersDict(dataset.chunk_size)
    if size and dataset.custom_chunking_func is None:
        sizes = _varied(dataset, seq_idx, size, NumbersDict(dataset.chunk_step))
        list(_chunks_of_seq(dataset, seq_idx, sizes, used_data_keys))


def _chunks_of_seq(
    dataset: EpochSequences,
    seq_idx: int,
    sizes: tuple[NumbersDict, NumbersDict],
    used_data_keys: Collection[str] | None,
) -> Iterator[Chunk]:
    """
    The chunks of one key, "data" if it is cut, say how many there are, and the other keys follow.

    A rest of that key of up to `min_chunk_size` frames is left out, but not a whole sequence.
    """
    lengths = _used_lengths(dataset.get_seq_length(seq_idx), used_data_keys)
    size, step = sizes
    cut = [key for key in lengths if size.get(key)]
    leading = DEFAULT_KEY if DEFAULT_KEY in cut else min(cut, default=None)
    # What is said once about a sequence, such as its speaker, holds for each of its chunks.
    cut = [key for key in cut if lengths[key] > 1 or (leading and lengths[key] == lengths[leading])]
    _check_same_number(dataset, seq_idx, {key: (int(lengths[key]), int(size[key]), int(step[key])) for key in cut})
    num_chunks = 1
    minimum: int | float = 0
    if leading is not None:
        num_chunks = max(-(-int(lengths[leading]) // int(step[leading])), 1)
        minimum = NumbersDict(dataset.min_chunk_size).get(leading) or 0
    for i in range(num_chunks):
        if i and leading and lengths[leading] - i * step[leading] <= minimum:
            break
        start, end = NumbersDict(), NumbersDict()
        for key, length in lengths.items():
            start[key] = min(i * int(step[key]), int(length)) if key in cut else 0
            end[key] = min(int(start[key]) + int(size[key]), int(length)) if key in cut else length
        yield seq_idx, start, end


def _check_same_number(dataset: EpochSequences, seq_idx: int, cut: Mapping[str, tuple[int, int, int]]) -> None:
    """
    :param cut: by key: length, size, step
    :raises DataError: if keys have different numbers of chunks, also without those that are not full; or the same step
        for different lengths
    """
    num_chunks = {key: -(-length // step) for key, (length, _, step) in cut.items()}
    num_full = {(length - size) // step for length, size, step in cut.values()}
    other_lengths = len({step for _, _, step in cut.values()}) < len(
        {(length, step) for length, _, step in cut.values()}
    )
    if other_lengths or (len(num_full) > 1 and len(set(num_chunks.values())) > 1):
        raise DataError(
            f"option 'chunking' gives different numbers of chunks per data key: {num_chunks}",
            dataset=dataset.description,
            seq=dataset.get_tag(seq_idx),
            hint=f"The lengths are { {key: length for key, (length, _, _) in cut.items()} }."
            " Give the sizes and steps by key, or 0 for keys to be left whole.",
        )


def _used_lengths(lengths: NumbersDict, used_data_keys: Collection[str] | None) -> NumbersDict:
    if used_data_keys is None:
        return lengths
    return NumbersDict({key: lengths[key] for key in lengths if key in used_data_keys})


def _varied(
    dataset: EpochSequences, seq_idx: int, size: NumbersDict, step: NumbersDict
) -> tuple[NumbersDict, NumbersDict]:
    """:return: size and step, made shorter by a random part of up to `chunking_variance` in each sequence"""
    if not dataset.chunking_variance:
        return size, step
    seed = [dataset.get_random_seed_for_epoch(dataset.epoch or 1) % 2**32, seq_idx]
    factor = 1.0 - np.random.RandomState(seed).uniform() * dataset.chunking_variance

    def vary(frames: Number) -> int:
        return max(int(frames * factor), 1) if frames else 0

    return size.unary_op(vary), step.unary_op(vary)
