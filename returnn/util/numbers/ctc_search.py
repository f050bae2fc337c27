"""
Decoding of CTC (Graves et al. 2006): which sequence of labels is the best one, given the probabilities of each frame.

A path has one class for each frame. Its labels are what remains when repeated classes are merged and blanks are left
out. Prefix beam search (Hannun et al. 2014, "First-pass large vocabulary continuous speech recognition using
bi-directional recurrent DNNs") goes over the frames and keeps the best prefixes of labels, each with the sum over all
paths that lead to it. A lexicon allows only its words; scores of a language model count when a label, or with a lexicon
a word, is complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy
import numpy.typing

from returnn.util.errors import UserError, nearest_hint
from returnn.util.files.text_file import iter_lines
from returnn.util.system.warn_once import warn_once

LogProbs: TypeAlias = numpy.typing.NDArray[numpy.floating]
LmScore: TypeAlias = "Callable[[tuple[int, ...], bool], float]"  # of outputs, natural log; and whether they are all
_NO_LABEL = -1
_SPACE = "<space>"  # in a lexicon, whose lines are split at spaces
_IMPOSSIBLE = -math.inf


@dataclass
class LexiconNode:
    """What can follow after some labels of a word."""

    children: dict[int, LexiconNode] = field(default_factory=dict)  # by label
    words: list[int] = field(default_factory=list)  # that end here


_NUM_EXAMPLES = 100  # so that it is known what kind of labels these are


class SpelledWords:
    """A lexicon: words, and the labels that they consist of, as a tree."""

    def __init__(self, spellings: Sequence[tuple[str, Sequence[int]]]) -> None:
        """:param spellings: words and their labels. A word can be there several times"""
        self.words = list(dict.fromkeys(word for word, _ in spellings))
        self.examples = spellings[:_NUM_EXAMPLES]
        self.root = LexiconNode()
        index = {word: i for i, word in enumerate(self.words)}
        for word, labels in spellings:
            node = self.root
            for label in labels:
                node = node.children.setdefault(label, LexiconNode())
            if index[word] not in node.words:
                node.words.append(index[word])

    @classmethod
    def from_file(cls, filename: str, labels: Sequence[str]) -> SpelledWords:
        """
        :param filename: lines `WORD LABEL LABEL ...`, can be gzipped. The label " " is written `<space>`
        :param labels: names of the labels. If one of them is " ", and no word has it, there is a warning: frames of it
            would have to be something else
        :raises UserError: if it cannot be read, or has other labels
        """
        ids = {label: i for i, label in enumerate(labels)}
        if " " in ids:
            ids.setdefault(_SPACE, ids[" "])
        spellings = []
        for line_nr, line in enumerate(iter_lines(filename), start=1):
            word, *spelling = line.split() or [""]
            if not word:
                continue
            wrong = next((label for label in spelling if label not in ids), None)
            if wrong is not None:
                hint = nearest_hint(wrong, labels)
                raise UserError(f"lexicon {filename!r}, line {line_nr}: there is no label {wrong!r}.\n  {hint}")
            if not spelling:
                raise UserError(f"lexicon {filename!r}, line {line_nr}: {word!r} has no labels behind it.")
            spellings.append((word, [ids[label] for label in spelling]))
        if not spellings:
            raise UserError(f"lexicon {filename!r}: has no words.\n  Expected lines 'WORD LABEL LABEL ...'.")
        if " " in ids and not any(ids[" "] in spelling for _, spelling in spellings):
            warn_once(
                f"lexicon {filename!r}: the space between words, ' ', is a label, but no word is spelled with it."
                f" It is written {_SPACE!r}, behind each word; those that can be the last one also stand without it."
            )
        return cls(spellings)


@dataclass(frozen=True)
class CtcSearch:
    """How to search."""

    beam_size: int = 16
    blank: int = -1  # class; negative: counted from the end
    lexicon: SpelledWords | None = None
    lm_score: LmScore | None = None  # is added, so that it is scaled already

    def best(self, log_probs: LogProbs) -> list[tuple[tuple[int, ...], float]]:
        """
        :param log_probs: (frames, classes), natural log
        :return: the best outputs, at most `beam_size`, the best one first: labels, or with a lexicon words; and their
            scores. Without a lexicon and a language model, scores are log probabilities
        """
        beam = {_Prefix(): _Paths(blank=0.0)}
        blank = self.blank % log_probs.shape[1]
        for frame in log_probs.astype(float):
            beam = self._best_of(self._step(beam, frame, blank))
        return self._finished(beam)

    def _step(self, beam: Mapping[_Prefix, _Paths], frame: LogProbs, blank: int) -> dict[_Prefix, _Paths]:
        new: dict[_Prefix, _Paths] = {}
        candidates = self._candidates(frame, blank, {prefix.last for prefix in beam})
        for prefix, paths in beam.items():
            stay = new.setdefault(prefix, _Paths())
            stay.blank = _log_add(stay.blank, paths.total + frame[blank])
            if prefix.last != _NO_LABEL:
                stay.label = _log_add(stay.label, paths.label + frame[prefix.last])
            for longer in self._continuations(prefix, candidates):
                before = paths.blank if longer.last == prefix.last else paths.total
                if before > _IMPOSSIBLE:
                    extended = new.setdefault(longer, _Paths())
                    extended.label = _log_add(extended.label, before + frame[longer.last])
        return new

    def _candidates(self, frame: LogProbs, blank: int, last: set[int]) -> Collection[int]:
        """
        :param frame: (classes,)
        :param blank: class
        :param last: labels of the prefixes in the beam, which may be reached from others that are there
        :return: labels that are worth to be tried. Of one prefix, no more can get into the beam
        """
        if self.lexicon is not None:
            return ()
        num = min(self.beam_size + 2, len(frame))  # one is maybe blank, one is maybe a repetition
        best = numpy.argpartition(-frame, num - 1)[:num]
        return {*best.tolist(), *last} - {blank, _NO_LABEL}

    def _continuations(self, prefix: _Prefix, candidates: Collection[int]) -> Iterator[_Prefix]:
        if self.lexicon is None:
            for label in candidates:
                yield _Prefix((*prefix.outputs, label), last=label)
            return
        node = self.lexicon.root
        for label in prefix.labels_of_word:
            node = node.children[label]
        for label, child in node.children.items():
            for word in child.words:
                yield _Prefix((*prefix.outputs, word), last=label)
            if child.children:
                yield _Prefix(prefix.outputs, (*prefix.labels_of_word, label), last=label)

    def _best_of(self, beam: dict[_Prefix, _Paths]) -> dict[_Prefix, _Paths]:
        scores = {prefix: paths.total for prefix, paths in beam.items()}
        if self.lm_score is not None:
            scores = {prefix: score + self.lm_score(prefix.outputs, False) for prefix, score in scores.items()}
        order = sorted(scores, key=lambda prefix: -scores[prefix])
        return {prefix: beam[prefix] for prefix in order[: self.beam_size] if beam[prefix].total > _IMPOSSIBLE}

    def _finished(self, beam: Mapping[_Prefix, _Paths]) -> list[tuple[tuple[int, ...], float]]:
        complete = {prefix: paths for prefix, paths in beam.items() if not prefix.labels_of_word}
        totals: dict[tuple[int, ...], float] = {}
        for prefix, paths in (complete or beam).items():  # if there is no complete word, without the part of one
            totals[prefix.outputs] = _log_add(totals.get(prefix.outputs, _IMPOSSIBLE), paths.total)
        if self.lm_score is not None:
            totals = {outputs: total + self.lm_score(outputs, True) for outputs, total in totals.items()}
        return sorted(totals.items(), key=lambda item: -item[1])


@dataclass(frozen=True)
class _Prefix:
    """What was said up to some frame."""

    outputs: tuple[int, ...] = ()
    labels_of_word: tuple[int, ...] = ()  # of the word that is not complete yet
    last: int = _NO_LABEL


@dataclass
class _Paths:
    """Log probability of all paths of a prefix: of those that end with blank, and with its last label."""

    blank: float = _IMPOSSIBLE
    label: float = _IMPOSSIBLE

    @property
    def total(self) -> float:
        """Of all of them."""
        return _log_add(self.blank, self.label)


def _log_add(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    return a if b == _IMPOSSIBLE else a + math.log1p(math.exp(b - a))
