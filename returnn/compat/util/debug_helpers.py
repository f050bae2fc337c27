"""Helpers for a debug shell: HDF files by sequence, objects by the stack that they live in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, TypeVar

import h5py
import numpy
from numpy.typing import NDArray

T = TypeVar("T")
Array = NDArray[Any]


def find_obj_in_stack(cls: type[T], stack: FrameType | None = None, all_threads: bool = True) -> T | None:
    """
    :param cls: class
    :param stack: innermost frame; default: that of the caller
    :param all_threads: if it is not there, look at all other threads
    :return: the innermost local variable of this class, None if there is no such
    """
    frames = [stack if stack is not None else sys._getframe(1)]
    if all_threads:
        frames += sys._current_frames().values()
    for innermost in frames:
        for frame in _outwards(innermost):
            for value in list(frame.f_locals.values()):
                if isinstance(value, cls):
                    return value
    return None


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


class SimpleHdf:
    """Reads an HDF file of the toolkit sequence by sequence, without a data set, when it is asked for."""

    def __init__(self, filename: str):
        """:param filename: of the file"""
        self.hdf = h5py.File(filename, "r")
        lengths = numpy.asarray(self.hdf["seqLengths"])
        self._lengths: Array = lengths[:, None] if lengths.ndim == 1 else lengths
        self.num_seqs = len(self._lengths)
        self.seq_starts = numpy.concatenate([[0], numpy.cumsum(self._lengths[:, 0])])
        self.seq_tag_to_idx = {tag: i for i, tag in enumerate(self.get_seq_tags())}

    def get_seq_tags(self) -> list[str]:
        """:return: tags of all sequences"""
        return [tag.decode() if isinstance(tag, bytes) else str(tag) for tag in self.hdf["seqTags"][:]]

    def get_data(self, seq_idx: int) -> Array:
        """:return: (T, ...): frames of a sequence"""
        start, end = self.seq_starts[seq_idx : seq_idx + 2]
        frames: Array = self.hdf["inputs"][start:end]
        return frames

    def get_targets(self, seq_idx: int) -> dict[str, Array]:
        """:return: by key: (T, ...)"""
        group = self.hdf.get("targets/data")
        found: dict[str, Array] = {}
        for i, key in enumerate(sorted(group) if group is not None else ()):
            lengths = self._lengths[:, min(i + 1, self._lengths.shape[1] - 1)]
            start = int(lengths[:seq_idx].sum())
            found[key] = group[key][start : start + lengths[seq_idx]]
        return found

    def get_data_dict(self, seq_idx: int) -> dict[str, Array]:
        """:return: all data of a sequence by key, the frames as "data" """
        return {"data": self.get_data(seq_idx), **self.get_targets(seq_idx)}
