"""
What a model of whole words says of the hypotheses of others: n-best lists of `g2p_aligned` as data to be evaluated.

The judge sees phonemes, not which letter they belong to. So it is asked once for each sequence of phonemes.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
from collections.abc import Iterable

from g2p_data import dataset_of, sequence

SEPARATOR = "|"  # in tags, between a word and its phonemes


def phonemes_of(chunks: Iterable[str]) -> str:
    """:return: those of all letters of a word"""
    return " ".join(chunk for chunk in chunks if chunk)


def n_best_dataset(filename: str, *, backwards: bool, **options: object) -> dict[str, object]:
    """
    :param filename: what `g2p_aligned.NBestLists` has written
    :param backwards: words and pronunciations begin with their end
    :param options: of the data set
    :return: description of the data: each sequence of phonemes of each word
    """
    with open(filename, encoding="utf8") as file:
        found = json.load(file)
    seqs = [
        sequence(word, phonemes.split(), f"{word}{SEPARATOR}{phonemes}", backwards=backwards)
        for word, hyps in found.items()
        for phonemes in sorted({phonemes_of(chunks) for chunks, _ in hyps})
    ]
    return dataset_of(seqs, **options)


def is_backwards(judge: int) -> bool:
    """:return: whether this judge, from 1 on, goes from the last letter and phoneme to the first one"""
    return judge % 2 == 0


def scores_filename(n_best: str, judge: int) -> str:
    """:return: where the judge, from 1 on, writes how likely the hypotheses of this file are"""
    return f"{os.path.splitext(n_best)[0]}.judge{judge}.py"


def read_scores(n_best: str) -> list[dict[tuple[str, str], float]]:
    """
    :param n_best: file with hypotheses
    :return: by each judge that has judged them, the log probability by word and phonemes
    """
    result = []
    filenames = (scores_filename(n_best, judge) for judge in itertools.count(1))
    for filename in itertools.takewhile(os.path.exists, filenames):
        with open(filename, encoding="utf8") as file:
            rows = ast.literal_eval(file.read())
        result.append({tuple(tag.split(SEPARATOR)): -row["score"] * row["seq_len"] for tag, row in rows.items()})
    return result
