"""Generated data of the small demos. The same seed gives the same sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

NUM_LETTERS = 6  # label 0 is no letter: it is the end of a sequence, or "nothing yet"
NUM_FEATURES = 8
LETTERS = ["</s>", "a", "b", "c", "d", "e"]
_SOUNDS = numpy.random.RandomState(0).normal(size=(NUM_LETTERS, NUM_FEATURES))

FRAMES = {
    "data": {"dim": NUM_FEATURES},  # vectors, any number of frames
    "classes": {"dim": NUM_LETTERS, "sparse": True},  # one letter for each frame
}
_VOCAB = {"class": "Vocabulary", "vocab_file": None, "labels": LETTERS, "unknown_label": None, "eos_label": 0}
SPOKEN = {"data": {"dim": NUM_FEATURES}, "classes": {"dim": NUM_LETTERS, "sparse": True, "vocab": _VOCAB}}
LETTERS_ONLY = {key: {"dim": NUM_LETTERS, "sparse": True, "vocab": _VOCAB} for key in ("data", "classes")}


def echoes(num_seqs: int, seed: int, *, delay: int = 2, **options: Any) -> dict[str, Any]:
    """:return: data set; each frame sounds like a letter, and its label is the letter of some frames before"""
    random = numpy.random.RandomState(seed)
    seqs = []
    for length in random.randint(8, 16, size=num_seqs):
        letters = random.randint(1, NUM_LETTERS, size=length)
        seqs.append({"data": _frames(letters, random), "classes": _labels([0] * delay, letters[: length - delay])})
    return _static(seqs, **options)


def firsts(num_seqs: int, seed: int, **options: Any) -> dict[str, Any]:
    """:return: data set; each frame sounds like a letter, and its label is the letter of the first frame"""
    random = numpy.random.RandomState(seed)
    seqs = []
    for length in random.randint(8, 16, size=num_seqs):
        letters = random.randint(1, NUM_LETTERS, size=length)
        seqs.append({"data": _frames(letters, random), "classes": _labels([letters[0]] * length)})
    return _static(seqs, **options)


def spoken(
    num_seqs: int,
    seed: int,
    *,
    with_end: bool = True,
    by_frame: bool = False,
    noise: float = 0.2,
    steps: Sequence[float] = (0.8, 0.2),
    **options: Any,
) -> dict[str, Any]:
    """
    :return: data set; each letter sounds for three to five frames, the labels are the letters. The next one is one, two
        and so on letters further in the alphabet, with the probabilities `steps`.
    """
    random = numpy.random.RandomState(seed)
    seqs = []
    for length in random.randint(2, 6, size=num_seqs):
        places = numpy.cumsum(random.choice(1 + numpy.arange(len(steps)), size=length, p=steps)) + random.randint(5)
        letters = 1 + places % (NUM_LETTERS - 1)
        said = numpy.repeat(letters, random.randint(3, 6, size=length))
        labels = said if by_frame else _labels(letters, [0] * with_end)
        seqs.append({"data": _frames(said, random, noise), "classes": _labels(labels)})
    return _static(seqs, **options)


def reversals(num_seqs: int, seed: int, **options: Any) -> dict[str, Any]:
    """:return: data set; up to three letters, and the same in the reverse order, with the end"""
    random = numpy.random.RandomState(seed)
    seqs = []
    for length in random.randint(1, 4, size=num_seqs):
        letters = random.randint(1, NUM_LETTERS, size=length)
        seqs.append({"data": _labels(letters), "classes": _labels(letters[::-1], [0])})
    return {**_static(seqs, **options), "output_dim": {"data": (NUM_LETTERS, 1), "classes": (NUM_LETTERS, 1)}}


def _static(seqs: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    output_dim = {"data": (NUM_FEATURES, 2), "classes": (NUM_LETTERS, 1)}
    return {"class": "StaticDataset", "data": seqs, "output_dim": output_dim, **options}


def _frames(letters: Any, random: numpy.random.RandomState, noise: float = 0.2) -> numpy.ndarray:
    return (_SOUNDS[letters] + noise * random.normal(size=(len(letters), NUM_FEATURES))).astype("float32")


def _labels(*parts: Any) -> numpy.ndarray:
    return numpy.concatenate(parts).astype("int32")
