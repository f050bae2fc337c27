"""
BLEU as it is published: the numbers of sacreBLEU (Post 2018, "A call for clarity in reporting BLEU scores").

Its signature is `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp`: texts without tokenization go in, the tokenizer of
mteval-v13a splits them, and orders without a match count half a match, the next one a quarter, and so on.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

_MAX_ORDER = 4
_ENTITIES = {"&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">"}
_SPLITS = [
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),  # punctuation and symbols of ASCII, but not ' , - .
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
]


def tokens_13a(text: str) -> list[str]:
    """:return: tokens of the text, as mteval-v13a splits it"""
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, char in _ENTITIES.items():
        text = text.replace(entity, char)
    text = f" {text} "
    for pattern, replacement in _SPLITS:
        text = pattern.sub(replacement, text)
    return text.split()


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """
    :param hypotheses: texts, without tokenization
    :param references: one for each
    :return: percent
    """
    matches, possible = [0] * _MAX_ORDER, [0] * _MAX_ORDER
    num_tokens, num_wanted = 0, 0
    for hypothesis, reference in zip(map(tokens_13a, hypotheses), map(tokens_13a, references), strict=True):
        num_tokens, num_wanted = num_tokens + len(hypothesis), num_wanted + len(reference)
        for order in range(_MAX_ORDER):
            found = _ngrams(hypothesis, order + 1)
            matches[order] += (found & _ngrams(reference, order + 1)).total()
            possible[order] += found.total()
    if not any(matches) or not all(possible):
        return 0.0
    log_precision, smoothing = 0.0, 1.0
    for match, total in zip(matches, possible, strict=True):
        if not match:
            smoothing *= 2
        log_precision += math.log((match or 1 / smoothing) / total) / _MAX_ORDER
    brevity = min(0.0, 1 - num_wanted / num_tokens)
    return 100 * math.exp(log_precision + brevity)


def _ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))
