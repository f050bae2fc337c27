"""
A joint model of letters and their chunks of phonemes: n-grams of pairs of both (Bisani and Ney 2008, "Joint-sequence
models for grapheme-to-phoneme conversion"), with modified Kneser-Ney smoothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kneser_ney import KneserNey, pack_ngrams

ORDER = 7  # as many numbers of pairs are in one number of 64 bits
_BITS = 9
_BEGIN, _END = 0, 1  # numbers beside those of pairs; 2 is of pairs that were not seen
_NUM_SPECIAL = 3

Token = tuple[str, str]  # letter and chunk


class JointNgrams:
    """How probable letters are, each together with its chunk."""

    def __init__(self, words: Sequence[Sequence[Token]]) -> None:
        """:param words: what it learns from"""
        tokens = sorted({token for word in words for token in word})
        self.ids = {token: i for i, token in enumerate(tokens, _NUM_SPECIAL)}
        num = len(tokens) + _NUM_SPECIAL
        if num > 1 << _BITS:
            raise ValueError(f"there are {len(tokens)} pairs of letters and chunks, and at most {1 << _BITS} fit")
        self.ngrams = KneserNey(self._ngrams(words)[0], order=ORDER, bits=_BITS, begin=_BEGIN)
        self.uniform = 1.0 / num

    def log_probs(self, words: Sequence[Sequence[Token]]) -> numpy.ndarray:
        """:return: [number of words], natural logarithm"""
        ngrams, index = self._ngrams(words)
        probabilities = self.ngrams.probabilities(ngrams, uniform=self.uniform)
        return numpy.bincount(index, numpy.log(probabilities), minlength=len(words))

    def _ngrams(self, words: Sequence[Sequence[Token]]) -> tuple[numpy.ndarray, numpy.ndarray]:
        """:return: n-grams of the highest order, one for each pair and one for the end; which word each is of"""
        unseen = _NUM_SPECIAL - 1
        padding = [_BEGIN] * (ORDER - 1)
        ids = [[*padding, *(self.ids.get(token, unseen) for token in word), _END] for word in words]
        lengths = numpy.array([len(x) for x in ids])
        flat = numpy.array([i for x in ids for i in x], "int64")
        # The first n-grams of a word would begin in the word before it, and are left out.
        position = numpy.arange(len(flat)) - numpy.repeat(numpy.cumsum(lengths) - lengths, lengths)
        is_whole = position >= ORDER - 1
        ngrams = pack_ngrams(flat, order=ORDER, bits=_BITS)
        return ngrams[is_whole], numpy.repeat(numpy.arange(len(ids)), lengths)[is_whole]
