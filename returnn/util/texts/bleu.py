"""Papineni et al., "BLEU: a method for automatic evaluation of machine translation", 2002."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence


def compute_bleu(
    reference_corpus: Sequence[Sequence[Hashable]],
    translation_corpus: Sequence[Sequence[Hashable]],
    max_order: int = 4,
    use_bp: bool = True,
    smooth: bool = False,
) -> float:
    """
    :param reference_corpus: one reference per sentence, as tokens
    :param translation_corpus: one translation per sentence, as tokens
    :param max_order: longest n-grams that count
    :param use_bp: whether translations that are too short cost
    :param smooth: for short texts: the first order without a match counts half a match, the next one a quarter, ...;
        orders longer than the text count nothing
    :return: 0 to 1
    """
    matches, possible = [0] * max_order, [0] * max_order
    for reference, translation in zip(reference_corpus, translation_corpus, strict=True):
        for order in range(1, max_order + 1):
            found, wanted = _ngrams(translation, order), _ngrams(reference, order)
            matches[order - 1] += (found & wanted).total()
            possible[order - 1] += found.total()
    counts = _smoothed(matches) if smooth else matches
    pairs = [(m, p) for m, p in zip(counts, possible, strict=True) if p or not smooth]
    if not pairs or min(m for m, _ in pairs) == 0:
        return 0.0
    log_precision = sum(math.log(m / p) for m, p in pairs) / max_order
    return math.exp(log_precision) * (_brevity_penalty(reference_corpus, translation_corpus) if use_bp else 1.0)


def _smoothed(matches: Sequence[int]) -> list[float]:
    result: list[float] = []
    share = 1.0
    for count in matches:
        share = share if count else share / 2
        result.append(count or share)
    return result


def _ngrams(tokens: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def _brevity_penalty(references: Sequence[Sequence[Hashable]], translations: Sequence[Sequence[Hashable]]) -> float:
    ratio = sum(map(len, translations)) / sum(map(len, references))
    return 1.0 if ratio >= 1 else math.exp(1 - 1 / ratio)
