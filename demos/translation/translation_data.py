"""
Sentences in two languages, and a SentencePiece vocabulary for both.

By default, the sentences are generated: numbers in English and in German words, where units come before tens. With the
environment variable TRANSLATION_DATA they come from a folder with a pair of files each for "train", "dev" and "test":
`NAME.en` and `NAME.de`, or the same with gzip, with a sentence per line. A dev set may also be named `val`, a test set
`test_2016_flickr`, as those of Multi30k are.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from typing import Any

import numpy

from returnn.tools.vocab_training import write_sentence_pieces
from returnn.util.files.atomic_file import write_atomic

SOURCE, TARGET = "en", "de"
FOLDER_VARIABLE = "TRANSLATION_DATA"
_NAMES = {"train": ["train"], "dev": ["dev", "val"], "test": ["test", "test_2016_flickr"]}
_NUM_GENERATED = {"train": 4000, "dev": 100, "test": 200}
_VOCAB_SIZE = {"given": 5000, "generated": 120}

_EN_ONES, _EN_TENS, _DE_ONES, _DE_TENS = (
    text.split()
    for text in (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen",
        "- - twenty thirty forty fifty sixty seventy eighty ninety",
        "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
        "siebzehn achtzehn neunzehn",
        "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    )
)


def dataset(split: str, folder: str, **options: Any) -> dict[str, Any]:
    """
    :param split: "train", "dev" or "test"
    :param folder: where data and vocabulary are made
    :param options: of the data set
    :return: description of the data, as the config wants it: "data" is the source, "classes" the target
    """
    return with_vocab(split, folder, vocab(folder), **options)


def with_vocab(split: str, folder: str, labels: dict[str, Any], **options: Any) -> dict[str, Any]:
    """
    :param split: "train", "dev" or "test"
    :param folder: where data is made
    :param labels: options of the vocabulary of both languages
    :param options: of the data set
    :return: description: "data" is the source, "classes" the target
    """
    sides = {
        language: {
            "class": "LmDataset", "corpus_file": text_file(split, language, folder), "orth_vocab": labels,
            "skip_empty_lines": False,
        }
        for language in (SOURCE, TARGET)
    }  # fmt: skip
    sides[TARGET].update(options)
    return {
        "class": "MetaDataset", "datasets": sides, "seq_order_control_dataset": TARGET,
        "data_map": {"data": (SOURCE, "data"), "classes": (TARGET, "data")},
    }  # fmt: skip


def text_file(split: str, language: str, folder: str) -> str:
    """:return: file with a sentence per line"""
    given = os.environ.get(FOLDER_VARIABLE)
    if not given:
        return os.path.join(_generated(folder), f"{split}.{language}")
    names = [os.path.join(given, f"{name}.{language}{end}") for name in _NAMES[split] for end in (".gz", "")]
    found = [name for name in names if os.path.exists(name)]
    if not found:
        raise FileNotFoundError(f"{FOLDER_VARIABLE}: there is none of {', '.join(names)}.")
    return found[0]


def vocab(folder: str) -> dict[str, Any]:
    """:return: options of a vocabulary of both languages, which is trained if it is not there"""
    kind = "given" if os.environ.get(FOLDER_VARIABLE) else "generated"
    prefix = os.path.join(folder, f"pieces-{kind}")
    if os.path.exists(f"{prefix}.model"):
        return {"class": "SentencePieces", "model_file": f"{prefix}.model", "add_eos": True}
    return write_sentence_pieces(_training_texts(folder), prefix, _VOCAB_SIZE[kind])


def _training_texts(folder: str) -> Iterator[str]:
    for language in (SOURCE, TARGET):
        name = text_file("train", language, folder)
        with gzip.open(name, "rt", encoding="utf8") if name.endswith(".gz") else open(name, encoding="utf8") as file:
            yield from (line.strip() for line in file)


def _generated(folder: str) -> str:
    """:return: folder with the files, which are written if they are not there"""
    where = os.path.join(folder, "numbers")
    if os.path.exists(where):
        return where
    os.makedirs(f"{where}.part", exist_ok=True)
    numbers = numpy.random.RandomState(1).permutation(1_000_000)
    for split, count in _NUM_GENERATED.items():
        chosen, numbers = numbers[:count], numbers[count:]
        for language, spoken in ((SOURCE, english), (TARGET, german)):
            text = "".join(f"{spoken(int(number))}\n" for number in chosen)
            write_atomic(os.path.join(f"{where}.part", f"{split}.{language}"), text)
    os.rename(f"{where}.part", where)
    return where


def english(number: int) -> str:
    """:return: e.g. "forty two thousand three hundred and one", for 0 to 999,999"""
    thousands, rest = divmod(number, 1000)
    hundreds, below = divmod(rest, 100)
    parts = [f"{english(thousands)} thousand"] if thousands else []
    parts += [f"{_EN_ONES[hundreds]} hundred"] if hundreds else []
    parts += ["and"] if below and (thousands or hundreds) else []
    if below >= 20:
        parts.append(_EN_TENS[below // 10])
        below %= 10
    if below or not parts:
        parts.append(_EN_ONES[below])
    return " ".join(parts)


def german(number: int) -> str:
    """:return: e.g. "zwei und vierzig tausend drei hundert eins"; each word of it is one"""
    thousands, rest = divmod(number, 1000)
    hundreds, below = divmod(rest, 100)
    parts = (
        [f"{german(thousands).removesuffix('s') if thousands % 100 == 1 else german(thousands)} tausend"]
        if thousands
        else []
    )
    parts += [f"{_DE_ONES[hundreds]} hundert"] if hundreds else []
    if below >= 20:
        parts.append(" und ".join([_DE_ONES[below % 10]] * bool(below % 10) + [_DE_TENS[below // 10]]))
    elif below or not parts:
        parts.append("eins" if below == 1 else _DE_ONES[below])
    return " ".join(parts)
