"""
PER, WER and examples: `python score.py HYPOTHESES`, a file that the task `search` has written.

For each word, the reference is that of its pronunciations that is nearest to the hypothesis. PER is the sum of the
edit distances over the sum of the lengths of these references; WER is the share of words without any match.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from g2p_data import END, Pronunciations, pronunciations

NUM_EXAMPLES = 10


@dataclass(frozen=True)
class Result:
    """One word."""

    word: str
    hypothesis: list[str]
    reference: list[str]
    num_errors: int


def read_hypotheses(filename: str) -> dict[str, list[str]]:
    """:return: by word its phonemes"""
    with open(filename, encoding="utf8") as file:
        texts = ast.literal_eval(file.read())
    return {word: [phoneme for phoneme in text.split() if phoneme != END] for word, text in texts.items()}


def compare(hypotheses: Mapping[str, list[str]], references: Pronunciations) -> list[Result]:
    """
    :param hypotheses: by word
    :param references: by word, several each
    :return: for each word of the references
    :raises ValueError: if there is a word without hypothesis
    """
    missing = sorted(set(references) - set(hypotheses))
    if missing:
        raise ValueError(f"there is no hypothesis for {len(missing)} words, such as {missing[0]!r}")
    results = []
    for word, candidates in references.items():
        errors = [edit_distance(hypotheses[word], candidate) for candidate in candidates]
        best = min(range(len(candidates)), key=lambda i: (errors[i], candidates[i]))
        results.append(Result(word, hypotheses[word], candidates[best], errors[best]))
    return results


def edit_distance(a: Sequence[str], b: Sequence[str]) -> int:
    """:return: how many insertions, deletions and substitutions lead from one to the other"""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def error_rates(results: Sequence[Result]) -> tuple[float, float]:
    """:return: PER, WER"""
    num_phonemes = sum(len(result.reference) for result in results)
    return (
        sum(result.num_errors for result in results) / num_phonemes,
        sum(result.num_errors > 0 for result in results) / len(results),
    )


def main(filename: str) -> None:
    results = compare(read_hypotheses(filename), pronunciations("test"))
    print(f"{'word':18} {'hypothesis':40} reference, where it differs")
    step = max(1, len(results) // NUM_EXAMPLES)
    for result in results[::step][:NUM_EXAMPLES]:
        reference = " ".join(result.reference) if result.num_errors else ""
        print(f"{result.word:18} {' '.join(result.hypothesis):40} {reference}")
    per, wer = error_rates(results)
    print(f"{len(results)} words, PER {per:.2%}, WER {wer:.2%}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "g2p-attention/hypotheses.py")
