"""
PER, WER and examples of `attention.config`.

For each word, the reference is that of its pronunciations that is nearest to the hypothesis. PER is the sum of the
edit distances over the sum of the lengths of these references; WER is the share of words without any match.
"""

from __future__ import annotations

import ast
import sys

from g2p_data import PHONEMES, pronunciations

NUM_EXAMPLES = 10


def edit_distance(a: list[str], b: list[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def main(filename: str) -> None:
    with open(filename, encoding="utf8") as file:
        hypotheses = ast.literal_eval(file.read())
    references = pronunciations("test")
    missing = set(references) - set(hypotheses)
    assert not missing, f"{filename} has no hypothesis for {len(missing)} words, such as {min(missing)!r}"
    num_wrong = num_phoneme_errors = num_phonemes = 0
    examples = []
    for word, candidates in references.items():
        hypothesis = [PHONEMES[int(label)] for label in hypotheses[word].split() if int(label)]
        distance, reference = min((edit_distance(hypothesis, ref), ref) for ref in candidates)
        num_wrong += distance > 0
        num_phoneme_errors += distance
        num_phonemes += len(reference)
        examples.append(f"{word:18} {' '.join(hypothesis):40} {'' if not distance else '!= ' + ' '.join(reference)}")
    step = max(1, len(examples) // NUM_EXAMPLES)
    print("\n".join(examples[::step][:NUM_EXAMPLES]))
    print(
        f"{len(references)} words, PER {num_phoneme_errors / num_phonemes:.2%}, WER {num_wrong / len(references):.2%}"
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "g2p-attention/hypotheses.py")
