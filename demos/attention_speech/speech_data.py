"""
Words in audio: those of the demo with CTC, which are generated; or spoken digits.

With the environment variable DIGITS_DATA, these are the recordings of the Free Spoken Digit Dataset, several of which
are joined to one sequence: a folder with `fsdd-train.zip` and `fsdd-test.zip`, as `OggZipDataset` reads them, and the
lists `concat-train.seqlist.txt` and `concat-test.seqlist.txt`, whose lines are the names of recordings, joined by ";".
Every tenth line of those for training is for development, and not trained on. The recordings of the others are joined
anew several times, in other orders.
"""

from __future__ import annotations

import ast
import io
import os
import sys
import wave
import zipfile

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ctc"))

import tones

END = "</s>"
FOLDER_VARIABLE = "DIGITS_DATA"
_NUM_GENERATED = {"train": 400, "dev": 20, "test": 20}
_DEV_EVERY = 10  # lines
_NUM_ORDERS = 4  # of the recordings to train on
_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def labels() -> list[str]:
    """:return: the end, then all words"""
    return [END, *(_DIGITS if FOLDER_VARIABLE in os.environ else tones.WORDS)]


def num_orders() -> int:
    """:return: how often the training data has each recording"""
    return _NUM_ORDERS if FOLDER_VARIABLE in os.environ else 1


def archive(split: str, folder: str) -> str:
    """
    :param split: "train", "dev" or "test"
    :param folder: where it is made
    :return: zip file for `OggZipDataset`
    """
    given = os.environ.get(FOLDER_VARIABLE)
    if not given:
        return tones.archive(split, folder, num_seqs=_NUM_GENERATED[split])
    filename = os.path.join(folder, f"digits-{split}.zip")
    if not os.path.exists(filename):
        _write_joined(given, split, filename)
    return filename


def _write_joined(given: str, split: str, filename: str) -> None:
    part = "test" if split == "test" else "train"
    with zipfile.ZipFile(os.path.join(given, f"fsdd-{part}.zip")) as source:
        recordings = ast.literal_eval(source.read(f"fsdd-{part}.txt").decode())
        by_name = {recording["seq_name"]: recording for recording in recordings}
        with open(os.path.join(given, f"concat-{part}.seqlist.txt"), encoding="utf8") as file:
            lines = file.read().split()
        if split != "test":
            lines = [line for i, line in enumerate(lines) if (i % _DEV_EVERY == 0) == (split == "dev")]
        if split == "train":
            lines += [line for seed in range(1, _NUM_ORDERS) for line in _in_other_order(lines, seed)]
        entries = []
        with zipfile.ZipFile(f"{filename}.part", "w") as target:
            for i, line in enumerate(lines):
                spoken = [by_name[name] for name in line.split(";")]
                content = _joined([source.read(f"fsdd-{part}/{one['file']}") for one in spoken])
                target.writestr(f"digits-{split}/{i}.wav", content)
                entry = {
                    "text": " ".join(one["text"] for one in spoken), "file": f"{i}.wav",
                    "duration": sum(one["duration"] for one in spoken),
                }  # fmt: skip
                entries.append(f"{entry!r},\n")
            target.writestr(f"digits-{split}.txt", f"[\n{''.join(entries)}]\n")
    os.replace(f"{filename}.part", filename)


def _in_other_order(lines: list[str], seed: int) -> list[str]:
    """:return: sequences of the same recordings, about as many and as long, each of one speaker"""
    random = numpy.random.RandomState(seed)
    lengths = [line.count(";") + 1 for line in lines]
    by_speaker: dict[str, list[str]] = {}
    for name in ";".join(lines).split(";"):
        by_speaker.setdefault(name.split("_")[1], []).append(name)
    found = []
    for names in by_speaker.values():
        random.shuffle(names)
        while names:
            length = lengths[random.randint(len(lengths))]
            found.append(";".join(names[:length]))
            del names[:length]
    return found


def _joined(recordings: list[bytes]) -> bytes:
    """:return: one recording, of several with the same format"""
    out = io.BytesIO()
    with wave.open(out, "wb") as target:
        for i, content in enumerate(recordings):
            with wave.open(io.BytesIO(content)) as source:
                if i == 0:
                    target.setparams(source.getparams())
                target.writeframes(source.readframes(source.getnframes()))
    return out.getvalue()
