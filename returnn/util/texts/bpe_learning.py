"""Learning the merges of byte pair encoding (Sennrich et al. 2016), in the format of `subword-nmt learn-bpe`."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping

Pair = tuple[str, str]
_END_OF_WORD = "</w>"
_MIN_COUNT = 2  # a pair that occurs less often is not worth a label


def learn_bpe(word_counts: Mapping[str, int], num_merges: int) -> list[Pair]:
    """
    :param word_counts: how often each word occurs
    :param num_merges: at most so many
    :return: pairs of symbols to merge, the most frequent ones first; "</w>" is at the end of a word
    """
    words = [[*word[:-1], word[-1] + _END_OF_WORD] for word in word_counts if word]
    weights = [count for word, count in word_counts.items() if word]
    counts: Counter[Pair] = Counter()
    words_with: defaultdict[Pair, set[int]] = defaultdict(set)
    for i, symbols in enumerate(words):
        _count(symbols, i, weights[i], counts, words_with)
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while heap and len(merges) < num_merges:
        count, pair = heapq.heappop(heap)
        if -count != counts[pair]:  # has become less since
            if counts[pair]:
                heapq.heappush(heap, (-counts[pair], pair))
            continue
        if -count < _MIN_COUNT:
            break
        merges.append(pair)
        for i in list(words_with[pair]):
            _count(words[i], i, -weights[i], counts, words_with)
            words[i] = merged(words[i], pair)
            _count(words[i], i, weights[i], counts, words_with)
            for new in set(itertools.pairwise(words[i])):
                heapq.heappush(heap, (-counts[new], new))
        counts.pop(pair, None)
    return merges


def merged(symbols: list[str], pair: Pair) -> list[str]:
    """:return: the symbols, where this pair is one"""
    result: list[str] = []
    for symbol in symbols:
        if result and (result[-1], symbol) == pair:
            result[-1] += symbol
        else:
            result.append(symbol)
    return result


def codes_text(merges: list[Pair]) -> str:
    """:return: the content of a file of codes"""
    return "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)


def _count(
    symbols: list[str], word: int, weight: int, counts: Counter[Pair], words_with: defaultdict[Pair, set[int]]
) -> None:
    for pair in itertools.pairwise(symbols):
        counts[pair] += weight
        if weight > 0:
            words_with[pair].add(word)
        else:
            words_with[pair].discard(word)
