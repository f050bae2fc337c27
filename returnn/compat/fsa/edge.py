"""Edges of automata over words, phones and states."""

from __future__ import annotations

import functools
from typing import Any


@functools.total_ordering
class Edge:
    """An edge of an automaton. Edges compare by where they start, where they end, and what they emit."""

    SIL = "_"  # silence
    EPS = "*"  # nothing
    BLANK = "%"  # blank of CTC

    def __init__(self, source_state_idx: int, target_state_idx: int, label: Any, weight: float = 0.0) -> None:
        """
        :param source_state_idx: from here
        :param target_state_idx: to there
        :param label: what it emits
        :param weight: negative log probability
        """
        self.source_state_idx = source_state_idx
        self.target_state_idx = target_state_idx
        self.label = label
        self.weight = weight
        self.score: float | None = None  # of the pronunciation
        self.is_loop = source_state_idx == target_state_idx
        self.idx_word_in_sentence: int | None = None
        self.idx_phon_in_word: int | None = None
        self.idx: int | None = None
        self.allo_idx: int | None = None  # number of the state within its phone
        self.label_prev: str | None = None  # the phone before
        self.label_next: str | None = None  # the phone behind
        self.phon_at_word_begin = False
        self.phon_at_word_end = False

    def as_tuple(self) -> tuple[int, int, Any, float]:
        """:return: from, to, label, weight"""
        return self.source_state_idx, self.target_state_idx, self.label, self.weight

    def _key(self) -> tuple[int, int, str, float]:
        return self.source_state_idx, self.target_state_idx, str(self.label), self.weight

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Edge) and self._key() == other._key()

    def __lt__(self, other: Edge) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return "Edge({}, {}, {!r}, {})".format(*self.as_tuple())
