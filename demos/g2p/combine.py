"""
The best hypotheses by all models together: `python demos/g2p/combine.py FOLDER`, where `aligned.config` was run.

Hypotheses are compared by the mean of the log probabilities of the members of the ensemble plus a scale times the log
probability of the joint n-grams. Alignments of the same phonemes are added up. The scale is the best one on dev.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

import numpy
from g2p_chunks import AlignedData
from g2p_data import pronunciations
from g2p_ngram import JointNgrams
from score import compare, error_rates

from returnn.util.files.atomic_file import write_atomic

SCALES = [i / 20 for i in range(21)]

Scores = list[float]
NBest = Mapping[str, Sequence[tuple[list[str], Scores]]]


def read_n_best(filename: str, ngrams: JointNgrams) -> NBest:
    """
    :param filename: what `NBestLists` has written
    :param ngrams: joint model
    :return: the same, with the score of the n-grams as last one
    """
    with open(filename, encoding="utf8") as file:
        found: NBest = json.load(file)
    flat = [(word, chunks, scores) for word, hyps in found.items() for chunks, scores in hyps]
    log_probs = ngrams.log_probs([list(zip(word, chunks, strict=True)) for word, chunks, _ in flat])
    result: dict[str, list[tuple[list[str], Scores]]] = {word: [] for word in found}
    for (word, chunks, scores), log_prob in zip(flat, log_probs.tolist(), strict=True):
        result[word].append((chunks, [*scores, log_prob]))
    return result


def best(n_best: NBest, scales: Sequence[float]) -> dict[str, list[str]]:
    """
    :param n_best: by word
    :param scales: of the scores
    :return: by word the best phonemes
    """
    result = {}
    for word, hyps in n_best.items():
        totals: dict[str, float] = {}
        for chunks, scores in hyps:
            phonemes = " ".join(chunk for chunk in chunks if chunk)
            score = sum(scale * score for scale, score in zip(scales, scores, strict=True))
            totals[phonemes] = float(numpy.logaddexp(totals.get(phonemes, -numpy.inf), score))
        result[word] = max(totals, key=lambda phonemes: totals[phonemes]).split()
    return result


def main(folder: str) -> None:
    data = AlignedData(os.path.join(folder, "alignment.json"))
    ngrams = JointNgrams([list(zip(word, chunks, strict=True)) for word, chunks in data.splits["train"]])
    dev = read_n_best(os.path.join(folder, "dev.json"), ngrams)
    num = len(next(iter(dev.values()))[0][1]) - 1
    kinds = {f"member {i + 1}": [float(k == i) for k in range(num + 1)] for i in range(num)}
    kinds["n-grams"] = [*[0.0] * num, 1.0]
    kinds["all members"] = [*[1 / num] * num, 0.0]
    together = [[*[1 / num] * num, scale] for scale in SCALES]
    kinds["all"] = min(together, key=lambda scales: _error_rates(dev, "dev", scales)[1])
    test = read_n_best(os.path.join(folder, "test.json"), ngrams)
    print(f"{'':14} dev PER    WER   test PER    WER")
    for name, scales in kinds.items():
        rates = [*_error_rates(dev, "dev", scales), *_error_rates(test, "test", scales)]
        print(f"{name:14} {rates[0]:7.2%} {rates[1]:7.2%} {rates[2]:7.2%} {rates[3]:7.2%}")
    print(f"scale of the n-grams: {kinds['all'][-1]}")
    hypotheses = {word: " ".join(phonemes) for word, phonemes in best(test, kinds["all"]).items()}
    write_atomic(os.path.join(folder, "hypotheses.py"), repr(hypotheses))


def _error_rates(n_best: NBest, split: str, scales: Sequence[float]) -> tuple[float, float]:
    return error_rates(compare(best(n_best, scales), pronunciations(split)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "g2p-aligned")
