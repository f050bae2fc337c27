"""
Words in audio: those of the demo with CTC, which are generated; or spoken digits.

With the environment variable DIGITS_DATA, these are the recordings of the Free Spoken Digit Dataset, several of which
are joined to one sequence: a folder with `fsdd-train.zip` and `fsdd-test.zip`, as `OggZipDataset` reads them, and the
lists `concat-train.seqlist.txt` and `concat-test.seqlist.txt`, whose lines are the names of recordings, joined by ";".
"""

from __future__ import annotations

import ast
import io
import os
import sys
import wave
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ctc"))

import tones

END = "</s>"
FOLDER_VARIABLE = "DIGITS_DATA"
_NUM_GENERATED = {"train": 400, "test": 20}
_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def labels() -> list[str]:
    """:return: the end, then all words"""
    return [END, *(_DIGITS if FOLDER_VARIABLE in os.environ else tones.WORDS)]


def archive(split: str, folder: str) -> str:
    """
    :param split: "train" or "test"
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
    with zipfile.ZipFile(os.path.join(given, f"fsdd-{split}.zip")) as source:
        recordings = ast.literal_eval(source.read(f"fsdd-{split}.txt").decode())
        by_name = {recording["seq_name"]: recording for recording in recordings}
        with open(os.path.join(given, f"concat-{split}.seqlist.txt"), encoding="utf8") as file:
            lines = file.read().split()
        entries = []
        with zipfile.ZipFile(f"{filename}.part", "w") as target:
            for i, line in enumerate(lines):
                parts = [by_name[name] for name in line.split(";")]
                content = _joined([source.read(f"fsdd-{split}/{part['file']}") for part in parts])
                target.writestr(f"digits-{split}/{i}.wav", content)
                entry = {
                    "text": " ".join(part["text"] for part in parts), "file": f"{i}.wav",
                    "duration": sum(part["duration"] for part in parts),
                }  # fmt: skip
                entries.append(f"{entry!r},\n")
            target.writestr(f"digits-{split}.txt", f"[\n{''.join(entries)}]\n")
    os.replace(f"{filename}.part", filename)


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
