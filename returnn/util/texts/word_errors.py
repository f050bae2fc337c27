"""The word error rate: the edit distance between hypotheses and references, relative to the references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from returnn.util.errors import UserError
from returnn.util.texts.counted import are, counted, there_are


@dataclass(frozen=True)
class WordErrors:
    """What a hypothesis, or many, differ in from the references."""

    num_substitutions: int = 0
    num_deletions: int = 0
    num_insertions: int = 0
    num_words: int = 0  # of the references
    num_wrong_seqs: int = 0
    num_seqs: int = 0

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(*(a + b for a, b in zip(self._values(), other._values(), strict=True)))

    def _values(self) -> list[int]:
        return list(vars(self).values())

    @property
    def num_errors(self) -> int:
        """The edit distance."""
        return self.num_substitutions + self.num_deletions + self.num_insertions

    @property
    def rate(self) -> float:
        """Errors relative to the words of the references."""
        return self.num_errors / self.num_words if self.num_words else float(self.num_errors > 0)

    def __str__(self) -> str:
        return (
            f"WER {self.rate:.2%} ({counted(self.num_errors, 'error')}: "
            f"{counted(self.num_substitutions, 'substitution')}, "
            f"{counted(self.num_deletions, 'deletion')}, {counted(self.num_insertions, 'insertion')}; "
            f"{counted(self.num_words, 'word')}), "
            f"{self.num_wrong_seqs} of {counted(self.num_seqs, 'sequence')} {are(self.num_wrong_seqs)} wrong"
        )


def align(hypothesis: Sequence[str], reference: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """
    :return: pairs of a word of the hypothesis, and what it stands for in the reference, with the fewest errors; None
        for a word that is missing there
    """
    num_rows, num_columns = len(hypothesis) + 1, len(reference) + 1
    gap = num_rows + num_columns  # of alignments with as few errors, the one with the most words that are right
    substitution = gap + 1
    cost = numpy.zeros((num_rows, num_columns), dtype="int64")
    cost[0], cost[:, 0] = gap * numpy.arange(num_columns), gap * numpy.arange(num_rows)
    for i, word in enumerate(hypothesis, 1):
        for j, wanted in enumerate(reference, 1):
            both = cost[i - 1, j - 1] + substitution * (word != wanted)
            cost[i, j] = min(both, cost[i - 1, j] + gap, cost[i, j - 1] + gap)
    pairs: list[tuple[str | None, str | None]] = []
    i, j = len(hypothesis), len(reference)
    while i or j:
        if i and j and cost[i, j] == cost[i - 1, j - 1] + substitution * (hypothesis[i - 1] != reference[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((hypothesis[i], reference[j]))
        elif i and cost[i, j] == cost[i - 1, j] + gap:
            i -= 1
            pairs.append((hypothesis[i], None))
        else:
            j -= 1
            pairs.append((None, reference[j]))
    return pairs[::-1]


def word_errors(hypothesis: Sequence[str], reference: Sequence[str]) -> WordErrors:
    """:return: of one of the alignments with the fewest errors"""
    counts = {"substitution": 0, "deletion": 0, "insertion": 0}
    for word, wanted in align(hypothesis, reference):
        kind = "deletion" if word is None else "insertion" if wanted is None else "substitution"
        counts[kind] += word != wanted
    substitutions, deletions, insertions = counts.values()
    return WordErrors(substitutions, deletions, insertions, len(reference), int(any(counts.values())), 1)


def total_word_errors(
    hypotheses: Mapping[str, str], references: Mapping[str, str], *, expect_full: bool = False
) -> WordErrors:
    """
    :param hypotheses: by tag
    :param references: by tag
    :param expect_full: every reference must have a hypothesis
    :raises UserError: if a hypothesis has no reference; or the reverse, with `expect_full`
    """
    unknown = next((tag for tag in hypotheses if tag not in references), None)
    if unknown is not None:
        raise UserError(f"there is no reference for {unknown!r}; {there_are(len(references), 'reference')}.")
    missing = [tag for tag in references if tag not in hypotheses]
    if missing and expect_full:
        raise UserError(
            f"there is no hypothesis for {len(missing)} of {counted(len(references), 'reference')}, as {missing[0]!r}."
        )
    total = WordErrors()
    for tag, text in hypotheses.items():
        total += word_errors(text.split(), references[tag].split())
    return total
