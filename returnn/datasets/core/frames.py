"""Frames around frames: windows over the features, ranges that reach over the ends, and frames in random order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.util.errors import ConfigError
from returnn.util.numbers.numbers_dict import NumbersDict


def parse_context_window(
    option: int | Mapping[str, int] | NumbersDict | None, *, where: str
) -> tuple[NumbersDict, NumbersDict]:
    """
    :param option: frames per window, its middle included; one number is for the key "data"
    :param where: for errors, the data set
    :return: number of frames to add on the left and on the right, per data key
    """
    sizes = NumbersDict({DEFAULT_KEY: option} if isinstance(option, int) else option)
    for key, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ConfigError(f"{where}: option 'context_window': {size!r} of {key!r} is not a positive number.")
    left = sizes.unary_op(lambda size: (size - 1) // 2)
    right = sizes.unary_op(lambda size: size // 2)
    left.value = right.value = 0
    return left, right


def windows_of_frames(frames: Array, window: int) -> Array:
    """
    :param frames: (time, feature)
    :param window: number of frames
    :return: (time, window * feature): each frame with its neighbours, zeros over the ends
    :raises ConfigError: if these are no features
    """
    if frames.ndim != 2:
        raise ConfigError(f"option 'window': joins the features of frames, but 'data' has the shape {frames.shape}.")
    if not len(frames):
        return np.zeros((0, window * frames.shape[1]), frames.dtype)
    left = (window - 1) // 2
    padded = np.pad(frames, [(left, window - 1 - left), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, window, axis=0)  # (time, feature, window)
    return np.ascontiguousarray(windows.transpose(0, 2, 1)).reshape(len(frames), -1)


def slice_with_padding(data: Array, start: int, end: int) -> Array:
    """
    :param data: (time, ...)
    :param start: first frame, may be negative
    :param end: exclusive, may be over the end
    :return: (end - start, ...), zeros where there is no frame
    """
    inner = data[max(start, 0) : max(min(end, len(data)), 0)]
    before, after = min(max(-start, 0), end - start), min(max(end - len(data), 0), end - start)
    if not before and not after:
        return inner
    return np.pad(inner, [(before, after)] + [(0, 0)] * (data.ndim - 1))


def shuffle_frames(seqs: Sequence[DatasetSeq], rng: np.random.RandomState, *, description: str) -> None:
    """
    Puts the frames of several sequences into random order, over all of them. The lengths stay.

    :param seqs: changed in place; all data keys of one sequence have the same length
    :param rng: where the order comes from
    :param description: of the data set, for errors
    """
    for seq in seqs:
        if len({len(data) for data in seq.features.values() if data.ndim}) > 1:
            raise ConfigError(
                f"{description}: option 'shuffle_frames_of_nseqs' needs the same length in all data keys.\n"
                f"  Sequence {seq.seq_tag!r} has {seq.num_frames.dict}."
            )
    timed_keys = [key for key, data in seqs[0].features.items() if data.ndim] if seqs else []
    ends = np.cumsum([len(seq.features[timed_keys[0]]) for seq in seqs] if timed_keys else [])
    order = rng.permutation(ends[-1] if len(ends) else 0)
    for key in timed_keys:
        frames = np.concatenate([seq.features[key] for seq in seqs])[order]
        for seq, part in zip(seqs, np.split(frames, ends[:-1]), strict=True):
            seq.features[key] = part
