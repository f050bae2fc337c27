"""
n-grams with modified Kneser-Ney smoothing (Chen and Goodman 1998, "An empirical study of smoothing techniques for
language modeling"), on arrays: an n-gram is one number of 64 bits, whose lowest bits are its last token.
"""

from __future__ import annotations

import numpy


def pack_ngrams(ids: numpy.ndarray, *, order: int, bits: int) -> numpy.ndarray:
    """
    :param ids: (n,)
    :param order: number of tokens of an n-gram
    :param bits: of a token
    :return: (n,): the n-grams that end with each token; the first ones begin with zeros
    """
    if order * bits > 63:
        raise ValueError(f"{order} tokens of {bits} bits each do not fit into 64 bits")
    ngrams = numpy.zeros(len(ids), "int64")
    for shift in range(order):
        ngrams[shift:] |= ids[: len(ids) - shift].astype("int64") << (bits * shift)
    return ngrams


class KneserNey:
    """How probable tokens are after those before them."""

    def __init__(self, ngrams: numpy.ndarray, *, order: int, bits: int, begin: int | None = None) -> None:
        """
        :param ngrams: (n,): of the highest order, what it learns from
        :param order: number of tokens of each
        :param bits: of a token
        :param begin: token before the first one of a text, if there are several texts
        """
        self.bits = bits
        self.orders: list[_Order] = []
        ngrams, counts = numpy.unique(ngrams, return_counts=True)
        for size in range(order, 0, -1):
            self.orders.insert(0, _Order(ngrams, counts, bits))
            if size > 1:
                ngrams, counts = _shorter(ngrams, counts, order=size, bits=bits, begin=begin)

    def probabilities(self, ngrams: numpy.ndarray, *, uniform: float) -> numpy.ndarray:
        """
        :param ngrams: (n,): of the highest order
        :param uniform: probability of a token of which nothing is known
        :return: (n,): of the last token of each
        """
        probabilities = numpy.full(len(ngrams), uniform)
        for size, order in enumerate(self.orders, 1):
            probabilities = order.interpolate(ngrams & ((1 << self.bits * size) - 1), probabilities)
        return probabilities


class _Order:
    """n-grams of one length."""

    def __init__(self, ngrams: numpy.ndarray, counts: numpy.ndarray, bits: int) -> None:
        """
        :param ngrams: sorted
        :param counts: of each
        :param bits: of a token
        """
        self.ngrams, self.counts, self.bits = ngrams, counts, bits
        self.discounts = _discounts(counts)
        self.contexts, of_context = numpy.unique(ngrams >> bits, return_inverse=True)
        self.totals = numpy.bincount(of_context, counts)
        self.rests = numpy.bincount(of_context, self.discounts[numpy.minimum(counts, 3)]) / self.totals

    def interpolate(self, ngrams: numpy.ndarray, shorter: numpy.ndarray) -> numpy.ndarray:
        """
        :param ngrams: (n,)
        :param shorter: (n,): probability of the last token of each after the shorter context
        :return: (n,): probability after the whole context
        """
        place, is_known = _find(self.contexts, ngrams >> self.bits)
        ngram, is_seen = _find(self.ngrams, ngrams)
        counts = numpy.where(is_seen, self.counts[ngram], 0)
        own = numpy.maximum(counts - self.discounts[numpy.minimum(counts, 3)], 0.0) / self.totals[place]
        return numpy.where(is_known, own + self.rests[place] * shorter, shorter)


def _shorter(
    ngrams: numpy.ndarray, counts: numpy.ndarray, *, order: int, bits: int, begin: int | None
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """
    :return: n-grams without their first token, with the number of different tokens before each; those which begin
        with the beginning of a text keep their counts, as nothing else can be before them
    """
    shorter, inverse, kinds = numpy.unique(
        ngrams & ((1 << bits * (order - 1)) - 1), return_inverse=True, return_counts=True
    )
    if begin is None:
        return shorter, kinds
    is_begin = shorter >> (bits * (order - 2)) == begin
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
