"""
A joint model of letters and their chunks of phonemes: n-grams of pairs of both (Bisani and Ney 2008, "Joint-sequence
models for grapheme-to-phoneme conversion"), with modified Kneser-Ney smoothing (Chen and Goodman 1998).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

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
        keys = self._keys(words)[0]
        self.orders: list[_Order] = []
        ngrams, counts = numpy.unique(keys, return_counts=True)
        for order in range(ORDER, 0, -1):
            self.orders.insert(0, _Order(ngrams, counts))
            if order > 1:
                ngrams, counts = _shorter(ngrams, counts, order)
        self.uniform = 1.0 / num

    def log_probs(self, words: Sequence[Sequence[Token]]) -> numpy.ndarray:
        """:return: [number of words], natural logarithm"""
        keys, index = self._keys(words)
        probabilities = numpy.full(len(keys), self.uniform)
        for number, order in enumerate(self.orders, 1):
            probabilities = order.interpolate(keys & ((1 << _BITS * number) - 1), probabilities)
        return numpy.bincount(index, numpy.log(probabilities), minlength=len(words))

    def _keys(self, words: Sequence[Sequence[Token]]) -> tuple[numpy.ndarray, numpy.ndarray]:
        """:return: n-grams of the highest order, one for each pair and one for the end; which word each is of"""
        unseen = _NUM_SPECIAL - 1
        padding = [_BEGIN] * (ORDER - 1)
        ids = [[*padding, *(self.ids.get(token, unseen) for token in word), _END] for word in words]
        lengths = numpy.array([len(x) for x in ids])
        flat = numpy.array([i for x in ids for i in x], "int64")
        # The first n-grams of a word would begin in the word before it, and are left out.
        position = numpy.arange(len(flat)) - numpy.repeat(numpy.cumsum(lengths) - lengths, lengths)
        keys = numpy.zeros(len(flat), "int64")
        for shift in range(ORDER):
            keys[shift:] |= flat[: len(flat) - shift] << (_BITS * shift)
        is_whole = position >= ORDER - 1
        return keys[is_whole], numpy.repeat(numpy.arange(len(ids)), lengths)[is_whole]


class _Order:
    """n-grams of one length, of which the last token is the lowest bits."""

    def __init__(self, ngrams: numpy.ndarray, counts: numpy.ndarray) -> None:
        """
        :param ngrams: sorted
        :param counts: of each
        """
        self.ngrams, self.counts = ngrams, counts
        self.discounts = _discounts(counts)
        self.contexts, of_context = numpy.unique(ngrams >> _BITS, return_inverse=True)
        self.totals = numpy.bincount(of_context, counts)
        self.rests = numpy.bincount(of_context, self.discounts[numpy.minimum(counts, 3)]) / self.totals

    def interpolate(self, keys: numpy.ndarray, shorter: numpy.ndarray) -> numpy.ndarray:
        """
        :param keys: n-grams
        :param shorter: probability of the last token of each after the shorter context
        :return: probability after the whole context
        """
        place, is_known = _find(self.contexts, keys >> _BITS)
        ngram, is_seen = _find(self.ngrams, keys)
        counts = numpy.where(is_seen, self.counts[ngram], 0)
        own = numpy.maximum(counts - self.discounts[numpy.minimum(counts, 3)], 0.0) / self.totals[place]
        return numpy.where(is_known, own + self.rests[place] * shorter, shorter)


def _shorter(ngrams: numpy.ndarray, counts: numpy.ndarray, order: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """
    :return: n-grams without their first token, with the number of different tokens before each; those which begin
        with the beginning of words keep their counts, as nothing else can be before them
    """
    shorter, inverse, kinds = numpy.unique(
        ngrams & ((1 << _BITS * (order - 1)) - 1), return_inverse=True, return_counts=True
    )
    is_begin = shorter >> (_BITS * (order - 2)) == _BEGIN
    return shorter, numpy.where(is_begin, numpy.bincount(inverse, counts), kinds).astype("int64")


def _discounts(counts: numpy.ndarray) -> numpy.ndarray:
    """:return: what is taken from counts of 0, 1, 2, and 3 or more"""
    of_counts = numpy.bincount(numpy.minimum(counts, 5), minlength=6).astype("float64")
    n1, n2, n3, n4 = numpy.maximum(of_counts[1:5], 1.0)
    y = n1 / (n1 + 2 * n2)
    discounts = numpy.array([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    return numpy.clip(discounts, [0.0, 0.1, 0.1, 0.1], [0.0, 0.9, 1.8, 2.7])


def _find(values: numpy.ndarray, wanted: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """:return: where in the sorted values each wanted one is, and whether it is there"""
    place = numpy.minimum(numpy.searchsorted(values, wanted), len(values) - 1)
    return place, values[place] == wanted
