"""
The best hypotheses by all models together: `python demos/g2p/combine.py FOLDER`, where `aligned.config` was run.

Hypotheses are compared by the mean of the log probabilities of the members of the ensemble, plus a scale times the log
probability of the joint n-grams, plus a scale times the mean of those of the judges, if `attention-full.config` has
judged them. Alignments of the same phonemes are added up. The scales are the best ones on dev. If all models had a last
pass with dev, these scales are for them, too.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence

import numpy
from g2p_chunks import AlignedData
from g2p_data import pronunciations
from g2p_judge import phonemes_of, read_scores
from g2p_ngram import JointNgrams
from score import compare, error_rates

from returnn.util.files.atomic_file import write_atomic

NGRAM_SCALES = [i / 20 for i in range(21)]
JUDGE_SCALES = [i / 10 for i in range(21)]

Scores = list[float]
NBest = Mapping[str, Sequence[tuple[list[str], Scores]]]


def read_n_best(filename: str, ngrams: JointNgrams) -> NBest:
    """
    :param filename: what `NBestLists` has written
    :param ngrams: joint model
    :return: the same, with the score of the n-grams behind those of the members, and then those of the judges
    """
    with open(filename, encoding="utf8") as file:
        found: NBest = json.load(file)
    judges = read_scores(filename)
    flat = [(word, chunks, scores) for word, hyps in found.items() for chunks, scores in hyps]
    log_probs = ngrams.log_probs([list(zip(word, chunks, strict=True)) for word, chunks, _ in flat])
    result: dict[str, list[tuple[list[str], Scores]]] = {word: [] for word in found}
    for (word, chunks, scores), log_prob in zip(flat, log_probs.tolist(), strict=True):
        result[word].append((chunks, [*scores, log_prob, *(judge[word, phonemes_of(chunks)] for judge in judges)]))
    return result


class Hypotheses:
    """Those of all words of a split in arrays, so that many scales can be tried."""

    def __init__(self, n_best: NBest) -> None:
        """:param n_best: by word"""
        rows = sorted((word, phonemes_of(chunks), scores) for word, hyps in n_best.items() for chunks, scores in hyps)
        self._scores = numpy.array([scores for _, _, scores in rows])
        self.num_scores = self._scores.shape[1]
        keys = [(word, phonemes) for word, phonemes, _ in rows]
        self._keys = list(dict.fromkeys(keys))  # of different phonemes; next, the first one of each in all rows
        self._first = numpy.array([0, *(i for i in range(1, len(keys)) if keys[i] != keys[i - 1])])
        words = [word for word, _ in self._keys]
        self._first_of_word = [0, *(i for i in range(1, len(words)) if words[i] != words[i - 1])]

    def best(self, scales: Sequence[float]) -> dict[str, list[str]]:
        """
        :param scales: of the scores
        :return: by word the best phonemes
        """
        totals = numpy.logaddexp.reduceat(self._scores @ numpy.array(scales), self._first)
        ends = [*self._first_of_word[1:], len(totals)]
        chosen = [start + int(totals[start:end].argmax()) for start, end in zip(self._first_of_word, ends, strict=True)]
        return {word: phonemes.split() for word, phonemes in (self._keys[i] for i in chosen)}

    def best_scales(self, candidates: Sequence[Sequence[float]], split: str) -> Sequence[float]:
        """:return: those of the candidates with which most words are right; of several such ones, the first"""
        right = pronunciations(split)

        def num_right(scales: Sequence[float]) -> int:
            return sum(phonemes in right[word] for word, phonemes in self.best(scales).items())

        return max(candidates, key=num_right)


def main(folder: str) -> None:
    data = AlignedData(os.path.join(folder, "alignment.json"))
    ngrams = JointNgrams([list(zip(word, chunks, strict=True)) for word, chunks in data.splits["train"]])
    dev, test = (Hypotheses(read_n_best(os.path.join(folder, f"{split}.json"), ngrams)) for split in ("dev", "test"))
    num_judges = len(read_scores(os.path.join(folder, "dev.json")))
    kinds = _kinds(dev, num_judges)
    print(f"{'':20} dev PER    WER   test PER    WER")
    for name, scales in kinds.items():
        rates = [*_error_rates(dev, "dev", scales), *_error_rates(test, "test", scales)]
        print(f"{name:20} {rates[0]:7.2%} {rates[1]:7.2%} {rates[2]:7.2%} {rates[3]:7.2%}")
    final = os.path.join(folder, "test-with-dev.json")
    if os.path.exists(final):
        test = _after_last_pass(final, data, num_scores=test.num_scores)
        rates = _error_rates(test, "test", kinds["all"])
        print(f"{'all, with dev':20} {'':7} {'':7} {rates[0]:7.2%} {rates[1]:7.2%}")
    scales = kinds["all"][dev.num_scores - 1 - num_judges :]
    print(f"scale of the n-grams {scales[0]}, of the judges {sum(scales[1:]):.1f}")
    hypotheses = {word: " ".join(phonemes) for word, phonemes in test.best(kinds["all"]).items()}
    write_atomic(os.path.join(folder, "hypotheses.py"), repr(hypotheses))


def _after_last_pass(filename: str, data: AlignedData, *, num_scores: int) -> Hypotheses:
    """:return: hypotheses of the models which have seen dev, too, with n-grams that have"""
    words = [*data.splits["train"], *data.splits["dev"]]
    ngrams = JointNgrams([list(zip(word, chunks, strict=True)) for word, chunks in words])
    found = Hypotheses(read_n_best(filename, ngrams))
    if found.num_scores != num_scores:
        raise ValueError(f"{filename} has {found.num_scores} scores, and test.json {num_scores}: judges are missing.")
    return found


def _kinds(dev: Hypotheses, num_judges: int) -> dict[str, Sequence[float]]:
    """:return: scales of all scores, by names for people: for each single one, and for several together"""
    num_members = dev.num_scores - 1 - num_judges
    names = [
        *(f"member {i + 1}" for i in range(num_members)),
        "n-grams",
        *(f"judge {i + 1}" for i in range(num_judges)),
    ]
    kinds: dict[str, Sequence[float]] = {
        name: [float(i == k) for k in range(dev.num_scores)] for i, name in enumerate(names)
    }
    several = {"all members": ([0.0], [0.0]), "members, n-grams": (NGRAM_SCALES, [0.0])}
    if num_judges:
        several |= {"members, judges": ([0.0], JUDGE_SCALES), "all": (NGRAM_SCALES, JUDGE_SCALES)}
    else:
        several |= {"all": several["members, n-grams"]}
    for name, scales in several.items():
        candidates = [
            [*([1 / num_members] * num_members), of_ngrams, *([of_judges / num_judges] * num_judges)]
            for of_ngrams, of_judges in itertools.product(*scales)
        ]
        kinds[name] = dev.best_scales(candidates, "dev")
    return kinds


def _error_rates(hypotheses: Hypotheses, split: str, scales: Sequence[float]) -> tuple[float, float]:
    return error_rates(compare(hypotheses.best(scales), pronunciations(split)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "g2p-aligned")
