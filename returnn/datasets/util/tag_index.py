"""Finds sequences by their tags: an index over millions of tags, which takes 16 bytes for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

TagArray: TypeAlias = "npt.NDArray[np.bytes_]"
_MAX_TAG_BYTES = 1 << 16


class TagIndex:
    """
    Keeps a sorted array of hashes instead of the tags. A hit is compared with the tag itself, so a collision of
    hashes costs time and nothing else.
    """

    def __init__(self, tag_blocks: Iterable[npt.NDArray[np.bytes_]], get_tag: Callable[[int], str]) -> None:
        """
        :param tag_blocks: all tags in the order of the corpus, as UTF-8, in blocks of any size
        :param get_tag: tag of a corpus index
        """
        self._get_tag = get_tag
        hashes = [_hash(block) for block in tag_blocks]
        all_hashes = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
        self._order = np.argsort(all_hashes, kind="stable")
        self._hashes = all_hashes[self._order]

    def find(self, tag: str) -> list[int]:
        """:return: corpus indices of all sequences with this tag, in ascending order"""
        (tag_hash,) = _hash(_as_bytes([tag]))
        start, end = np.searchsorted(self._hashes, tag_hash, "left"), np.searchsorted(self._hashes, tag_hash, "right")
        return [int(i) for i in self._order[start:end] if self._get_tag(int(i)) == tag]

    def guess(self, tags: TagArray) -> npt.NDArray[np.int64]:
        """
        :param tags: as UTF-8, not none
        :return: corpus index of each tag, if it is there once. The caller has to check that; -1: it is not
        """
        hashes = _hash(tags)
        start, end = np.searchsorted(self._hashes, hashes, "left"), np.searchsorted(self._hashes, hashes, "right")
        return np.where(end - start == 1, self._order[np.minimum(start, len(self._order) - 1)], -1)


def _as_bytes(tags: Sequence[str]) -> npt.NDArray[np.bytes_]:
    return np.array([tag.encode("utf8") for tag in tags])


def _hash(tags: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint64]:
    """Multilinear hashing (Carter and Wegman 1979). NUL adds nothing, so the width of the array does not matter."""
    width = tags.dtype.itemsize
    assert width < _MAX_TAG_BYTES
    factors = np.random.RandomState(1).randint(0, 2**63 - 1, size=_MAX_TAG_BYTES, dtype=np.int64).astype(np.uint64)
    letters = np.ascontiguousarray(tags).view(np.uint8).reshape(len(tags), width) if width else None
    hashes = np.zeros(len(tags), np.uint64)
    for i in range(width):
        assert letters is not None
        hashes += letters[:, i].astype(np.uint64) * (factors[i] * np.uint64(2) + np.uint64(1))
    return hashes
