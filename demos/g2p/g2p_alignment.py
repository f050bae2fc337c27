"""
Which phonemes belong to which letter: each letter gets a chunk of none, one or several phonemes, in order.

The probabilities of chunks, given the letter, are learned by expectation maximization over all alignments
(Baum-Welch; the same as a one-to-many joint-sequence model of one letter, Bisani and Ney 2008).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

MAX_PHONEMES = 3  # of a chunk
NUM_ROUNDS = 8
_SMALLEST = 1e-30
_PRIOR = (0.2, 0.7, 0.1, 1e-4)  # of the length of a chunk, before anything is learned

Chunk = tuple[int, ...]
Pair = tuple[Sequence[int], Sequence[int]]


def learn(pairs: Sequence[Pair], num_letters: int, num_phonemes: int) -> numpy.ndarray:
    """
    :param pairs: letters and phonemes of each word, as numbers; words with too many phonemes are left out
    :param num_letters: how many letters there are
    :param num_phonemes: how many phonemes there are
    :return: [letters, size of the chunk, number of the chunk], probability of the chunk, given the letter
    """
    batches = _batches(pairs, num_phonemes)
    probabilities: numpy.ndarray | None = None
    for _ in range(NUM_ROUNDS):
        counts = numpy.zeros((num_letters, MAX_PHONEMES + 1, num_phonemes**MAX_PHONEMES))
        for batch in batches:
            batch.count(probabilities, counts)
        probabilities = counts / numpy.maximum(counts.sum(axis=(1, 2), keepdims=True), _SMALLEST)
    assert probabilities is not None
    return probabilities


def align(pairs: Sequence[Pair], probabilities: numpy.ndarray, num_phonemes: int) -> list[list[Chunk] | None]:
    """
    :param pairs: letters and phonemes of each word, as numbers
    :param probabilities: what `learn` returned
    :param num_phonemes: how many phonemes there are
    :return: for each pair a chunk for each letter, the most probable ones; None where there are too many phonemes
    """
    result: list[list[Chunk] | None] = [None] * len(pairs)
    for batch in _batches(pairs, num_phonemes):
        for index, chunks in batch.best(probabilities):
            result[index] = chunks
    return result


def _batches(pairs: Sequence[Pair], num_phonemes: int) -> list[_Batch]:
    """:return: words with as many letters and phonemes each"""
    of_sizes: dict[tuple[int, int], list[int]] = {}
    for index, (letters, phonemes) in enumerate(pairs):
        if len(phonemes) <= MAX_PHONEMES * len(letters):
            of_sizes.setdefault((len(letters), len(phonemes)), []).append(index)
    return [_Batch(pairs, indices, num_phonemes) for _, indices in sorted(of_sizes.items())]


class _Batch:
    """Words of the same size: their letters [N, I] and phonemes [N, J]."""

    def __init__(self, pairs: Sequence[Pair], indices: list[int], num_phonemes: int) -> None:
        self.indices, self.num_phonemes = indices, num_phonemes
        self.letters = numpy.array([pairs[index][0] for index in indices])
        self.phonemes = numpy.array([pairs[index][1] for index in indices]).reshape(len(indices), -1)

    def count(self, probabilities: numpy.ndarray | None, counts: numpy.ndarray) -> None:
        """
        :param probabilities: [letters, size of the chunk, chunk]; None: a guess
        :param counts: the same shape; how often chunks are expected are added
        """
        scores = self._scores(probabilities)
        (num_words, num_letters), num = self.letters.shape, self.phonemes.shape[1]
        forward = numpy.zeros((num_letters + 1, num_words, num + 1))
        backward = numpy.zeros_like(forward)
        forward[0, :, 0] = backward[-1, :, -1] = 1.0
        for i in range(num_letters):
            for k, of_size in enumerate(scores):
                forward[i + 1, :, k:] += forward[i, :, : num + 1 - k] * of_size[i]
        for i in reversed(range(num_letters)):
            for k, of_size in enumerate(scores):
                backward[i, :, : num + 1 - k] += backward[i + 1, :, k:] * of_size[i]
        total = numpy.maximum(forward[-1, :, -1], _SMALLEST)[:, None]
        for k, of_size in enumerate(scores):
            chunks = self._chunks(k)
            for i in range(num_letters):
                expected = forward[i, :, : num + 1 - k] * of_size[i] * backward[i + 1, :, k:] / total
                numpy.add.at(counts, (self.letters[:, i, None], k, chunks), expected)

    def best(self, probabilities: numpy.ndarray) -> list[tuple[int, list[Chunk]]]:
        """
        :param probabilities: [letters, size of the chunk, chunk]
        :return: index of each word, and its chunks in the most probable alignment
        """
        scores = [numpy.log(numpy.maximum(x, _SMALLEST)) for x in self._scores(probabilities)]
        (num_words, num_letters), num = self.letters.shape, self.phonemes.shape[1]
        best = numpy.full((num_words, num + 1), -numpy.inf)
        best[:, 0] = 0.0
        sizes = []
        for i in range(num_letters):
            options = numpy.full((len(scores), num_words, num + 1), -numpy.inf)
            for k, of_size in enumerate(scores):
                options[k, :, k:] = best[:, : num + 1 - k] + of_size[i]
            sizes.append(options.argmax(axis=0))
            best = options.max(axis=0)
        return [(index, self._trace_back(n, sizes)) for n, index in enumerate(self.indices)]

    def _trace_back(self, n: int, sizes: list[numpy.ndarray]) -> list[Chunk]:
        chunks, end = [], self.phonemes.shape[1]
        for of_letter in reversed(sizes):
            begin = end - of_letter[n, end]
            chunks.append(tuple(self.phonemes[n, begin:end].tolist()))
            end = begin
        return chunks[::-1]

    def _scores(self, probabilities: numpy.ndarray | None) -> list[numpy.ndarray]:
        """:return: for each size k of a chunk [I, N, J + 1 - k], p(chunk that begins at j | letter)"""
        result = []
        for k in range(min(MAX_PHONEMES, self.phonemes.shape[1]) + 1):
            chunks = self._chunks(k)
            if probabilities is None:
                result.append(numpy.full((self.letters.shape[1], *chunks.shape), _PRIOR[k]))
            else:
                result.append(numpy.stack([probabilities[x[:, None], k, chunks] for x in self.letters.T]))
        return result

    def _chunks(self, size: int) -> numpy.ndarray:
        """:return: [N, J + 1 - size], a number for the chunk of this size that begins at each phoneme"""
        num = self.phonemes.shape[1] + 1 - size
        chunks = numpy.zeros((len(self.indices), num), "int64")
        for k in range(size):
            chunks = chunks * self.num_phonemes + self.phonemes[:, k : k + num]
        return chunks
