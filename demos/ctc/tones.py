"""Recordings of tones, each of which is a word; or those of a folder."""

from __future__ import annotations

import io
import os
import wave
import zipfile

import numpy

WORDS = {"up": (300.0, 900.0), "down": (900.0, 300.0), "high": (1500.0, 1500.0)}  # Hz, at begin and end
_SAMPLE_RATE = 8000
_NUM_SEQS = {"train": 60, "test": 20, "dev": 20}  # by default


def words() -> list[str]:
    """:return: all labels"""
    return os.environ.get("CTC_WORDS", " ".join(WORDS)).split()


def archive(split: str, folder: str, *, num_seqs: int | None = None) -> str:
    """
    :param split: "train", "dev" or "test"
    :param folder: where it is generated
    :param num_seqs: how many are generated
    :return: zip file for `OggZipDataset`
    """
    given = os.environ.get("CTC_DATA")
    if given:
        return os.path.join(given, f"{split}.zip")
    filename = os.path.join(folder, f"tones-{split}.zip")
    if not os.path.exists(filename):
        _write(filename, f"tones-{split}", split, num_seqs or _NUM_SEQS[split])
    return filename


def _write(filename: str, name: str, split: str, num_seqs: int) -> None:
    random = numpy.random.RandomState(list(_NUM_SEQS).index(split))
    entries = []
    with zipfile.ZipFile(f"{filename}.part", "w") as file:
        for i in range(num_seqs):
            said = [str(word) for word in random.choice(list(WORDS), size=random.randint(3, 9))]
            samples = _samples(said, random)
            file.writestr(f"{name}/{i}.wav", _wav(samples))
            entries.append({"text": " ".join(said), "duration": len(samples) / _SAMPLE_RATE, "file": f"{i}.wav"})
        file.writestr(f"{name}.txt", f"[\n{''.join(f'{entry!r},{chr(10)}' for entry in entries)}]\n")
    os.replace(f"{filename}.part", filename)


def _samples(said: list[str], random: numpy.random.RandomState) -> numpy.ndarray:
    parts = [numpy.zeros(random.randint(800, 2400))]
    for word in said:
        num = random.randint(1600, 3200)
        begin, end = WORDS[word]
        frequency = numpy.linspace(begin, end, num) * random.uniform(0.8, 1.25)
        parts.append(numpy.sin(2 * numpy.pi * numpy.cumsum(frequency) / _SAMPLE_RATE) * numpy.hanning(num))
        parts.append(numpy.zeros(random.randint(800, 2400)))
    samples = numpy.concatenate(parts)
    return samples + random.normal(size=len(samples)) * 0.1


def _wav(samples: numpy.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as audio:
        audio.setparams((1, 2, _SAMPLE_RATE, 0, "NONE", ""))
        audio.writeframes((samples / numpy.abs(samples).max() * 32000).astype("int16").tobytes())
    return file.getvalue()
