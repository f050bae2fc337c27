"""
Words whose letters have chunks of phonemes: what a model of `g2p_aligned` is trained with.

The alignment is learned from the training data (`g2p_alignment`), in about 20 seconds, and kept in a file.
"""

from __future__ import annotations

import collections
import json
import os

import numpy
from g2p_alignment import Chunk, Pair, align, learn
from g2p_data import LETTERS, PHONEMES, TIMES_DEV, pronunciations

from returnn.util.files.atomic_file import write_atomic

MIN_COUNT = 5  # of a chunk; words of the training data with others are left out, which are names such as "mfn"
_LETTER_IDS = {letter: i for i, letter in enumerate(LETTERS)}
_PHONEME_IDS = {phoneme: i for i, phoneme in enumerate(PHONEMES)}


class AlignedData:
    """Training and dev data with a chunk for each letter, from a file that is made if it is not there."""

    def __init__(self, filename: str) -> None:
        """:param filename: JSON"""
        if not os.path.exists(filename):
            write_atomic(filename, json.dumps(_aligned_splits()))
        with open(filename, encoding="utf8") as file:
            self.splits: dict[str, list[tuple[str, list[str]]]] = json.load(file)
        counts = collections.Counter(chunk for _, chunks in self.splits["train"] for chunk in chunks)
        self.labels = sorted(chunk for chunk, count in counts.items() if count >= MIN_COUNT)
        self.ids = {label: i for i, label in enumerate(self.labels)}

    def dataset(
        self, split: str, *, with_dev: bool = False, backwards: bool, max_seqs: int | None = None, **options: object
    ) -> dict[str, object]:
        """
        :param split: "train" or "dev"; words with chunks that are rare in the training data are left out
        :param with_dev: those of dev, too, several times
        :param backwards: from the last letter of each word to the first one
        :param max_seqs: so many of them, from all over the data
        :param options: of the data set
        :return: description of the data
        """
        words = [*self.splits[split], *(self.splits["dev"] * TIMES_DEV if with_dev else [])]
        words = [(word, chunks) for word, chunks in words if all(chunk in self.ids for chunk in chunks)]
        words = words[:: max(1, len(words) // max_seqs)][:max_seqs] if max_seqs else words
        step = -1 if backwards else 1
        seqs = [
            {
                "data": letters_of(word)[::step],
                "classes": numpy.array([self.ids[chunk] for chunk in chunks], "int32")[::step],
                "seq_tag": f"{word}-{i}",
            }
            for i, (word, chunks) in enumerate(words)
        ]
        dims = {"data": (len(LETTERS), 1), "classes": (len(self.labels), 1)}
        return {"class": "StaticDataset", "data": seqs, "output_dim": dims, **options}


def words_dataset(split: str, **options: object) -> dict[str, object]:
    """
    :param split: "train", "dev" or "test"
    :param options: of the data set
    :return: description of the data, of letters alone
    """
    seqs = [{"data": letters_of(word), "seq_tag": word} for word in pronunciations(split)]
    return {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (len(LETTERS), 1)}, **options}


def letters_of(word: str) -> numpy.ndarray:
    """:return: [I], their numbers"""
    return numpy.array([_LETTER_IDS[letter] for letter in word], "int32")


def _aligned_splits() -> dict[str, list[tuple[str, list[str]]]]:
    probabilities = learn(_pairs("train"), len(LETTERS), len(PHONEMES))
    return {split: _aligned(split, probabilities) for split in ("train", "dev")}


def _aligned(split: str, probabilities: numpy.ndarray) -> list[tuple[str, list[str]]]:
    pairs = _pairs(split)
    return [
        ("".join(LETTERS[i] for i in letters), [_text(chunk) for chunk in chunks])
        for (letters, _), chunks in zip(pairs, align(pairs, probabilities, len(PHONEMES)), strict=True)
        if chunks is not None
    ]


def _pairs(split: str) -> list[Pair]:
    return [
        ([_LETTER_IDS[letter] for letter in word], [_PHONEME_IDS[phoneme] for phoneme in phonemes])
        for word, candidates in pronunciations(split).items()
        for phonemes in candidates
    ]


def _text(chunk: Chunk) -> str:
    return " ".join(PHONEMES[i] for i in chunk)
