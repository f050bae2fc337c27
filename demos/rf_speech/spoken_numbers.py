"""
Generated speech: numbers below a million in English words, by a small formant synthesizer (after Klatt 1980).

Each word is a row of phones. Voiced ones are the harmonics of a pitch, weighted by resonances (formants) that move from
phone to phone; the others are noise around a frequency, or a pause and a burst. Speakers differ in pitch, speed and in
the size of the vocal tract, which scales all formants. With the environment variable DIGITS_DATA, recordings of digits
are taken instead, see `demos/attention_speech/speech_data.py`.
"""

from __future__ import annotations

import io
import os
import sys
import wave
import zipfile
from collections.abc import Iterator

import numpy

_DEMOS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(_DEMOS, name) for name in ("translation", "attention_speech")]

from speech_data import FOLDER_VARIABLE, archive, labels  # noqa: E402
from translation_data import english  # noqa: E402

SAMPLE_RATE = 8000  # Hz
_NUM_SEQS = {"train": 600, "dev": 50, "test": 150}
_NUM_TEXTS = 5000  # that the language model is estimated from
_STEP = 40  # samples between two points where pitch and formants are known

# Formants in Hz, duration in ms. Vowels and the like are voiced.
_VOICED = {
    "IY": (270, 2290, 3010, 110), "IH": (390, 1990, 2550, 80), "EH": (530, 1840, 2480, 100),
    "AH": (640, 1190, 2390, 90), "AO": (570, 840, 2410, 120), "UW": (300, 870, 2240, 110),
    "ER": (490, 1350, 1690, 110), "AA": (730, 1090, 2440, 110), "W": (300, 610, 2200, 60),
    "R": (310, 1060, 1380, 60), "L": (360, 1300, 2700, 60), "N": (280, 1700, 2600, 70),
    "V": (220, 1100, 2080, 60), "D": (200, 1600, 2600, 50), "Y": (260, 2070, 3020, 50), "Z": (220, 1400, 2500, 70),
}  # fmt: skip
# Frequency of the noise and how far it spreads in Hz, duration in ms, duration of the pause before it.
_NOISE = {
    "S": (3600, 500, 110, 0), "F": (2600, 1500, 90, 0), "TH": (2900, 1500, 80, 0), "H": (1200, 900, 60, 0),
    "T": (3200, 900, 30, 50), "K": (1800, 600, 30, 50),
}  # fmt: skip
PHONES = {
    "zero": "Z IH R AO", "one": "W AH N", "two": "T UW", "three": "TH R IY", "four": "F AO R", "five": "F AA IY V",
    "six": "S IH K S", "seven": "S EH V AH N", "eight": "EH IY T", "nine": "N AA IY N", "ten": "T EH N",
    "eleven": "IH L EH V AH N", "twelve": "T W EH L V", "thirteen": "TH ER T IY N", "fourteen": "F AO R T IY N",
    "fifteen": "F IH F T IY N", "sixteen": "S IH K S T IY N", "seventeen": "S EH V AH N T IY N",
    "eighteen": "EH IY T IY N", "nineteen": "N AA IY N T IY N", "twenty": "T W EH N T IY", "thirty": "TH ER T IY",
    "forty": "F AO R T IY", "fifty": "F IH F T IY", "sixty": "S IH K S T IY", "seventy": "S EH V AH N T IY",
    "eighty": "EH IY T IY", "ninety": "N AA IY N T IY", "hundred": "H AH N D R AH D", "thousand": "TH AA UW Z AH N D",
    "and": "AH N D",
}  # fmt: skip


def words() -> list[str]:
    """:return: all labels"""
    return labels()[1:] if FOLDER_VARIABLE in os.environ else list(PHONES)


def texts() -> Iterator[list[str]]:
    """:return: sentences for a language model, none of them in the test data"""
    random = numpy.random.RandomState(100)
    if FOLDER_VARIABLE in os.environ:
        yield from ([str(word) for word in random.choice(words(), size=random.randint(3, 9))] for _ in range(1000))
        return
    said = {number for split in ("dev", "test") for number in _numbers(split)}
    yield from (english(int(n)).split() for n in random.randint(0, 1_000_000, size=_NUM_TEXTS) if n not in said)


def recordings(split: str, folder: str, num_seqs: int | None = None) -> str:
    """
    :param split: "train", "dev" or "test"
    :param folder: where they are made, if they are not there
    :param num_seqs: default: as the demo has them
    :return: zip file for `OggZipDataset`
    """
    if FOLDER_VARIABLE in os.environ:
        return archive(split, folder)
    filename = os.path.join(folder, f"numbers-{split}.zip")
    if os.path.exists(filename):
        return filename
    random = numpy.random.RandomState(list(_NUM_SEQS).index(split))
    entries = []
    with zipfile.ZipFile(f"{filename}.part", "w") as file:
        for i, number in enumerate(_numbers(split)[:num_seqs]):
            text = english(number)
            samples = spoken(text.split(), random)
            file.writestr(f"numbers-{split}/{i}.wav", _wav(samples))
            entries.append({"text": text, "duration": len(samples) / SAMPLE_RATE, "file": f"{i}.wav"})
        file.writestr(f"numbers-{split}.txt", "[\n" + "".join(f"{entry!r},\n" for entry in entries) + "]\n")
    os.replace(f"{filename}.part", filename)
    return filename


def _numbers(split: str) -> list[int]:
    """:return: what is said; with few digits as often as with many"""
    random = numpy.random.RandomState(10 + list(_NUM_SEQS).index(split))
    digits = random.randint(1, 7, size=_NUM_SEQS[split])
    return [int(random.randint(0, 10**count)) for count in digits]


def spoken(said: list[str], random: numpy.random.RandomState) -> numpy.ndarray:
    """
    :param said: words, keys of `PHONES`
    :param random: makes the speaker, and the noise around
    :return: (samples,), at most 1
    """
    speed, tract, pitch = random.uniform(0.8, 1.2), random.uniform(0.85, 1.15), random.uniform(90, 220)
    parts = [_silence(random, 0.05, 0.15)]
    for word in said:
        parts += [_word(PHONES[word].split(), speed, tract, pitch, random), _silence(random, 0.02, 0.08)]
    samples = numpy.concatenate([*parts, _silence(random, 0.05, 0.15)])
    samples /= numpy.abs(samples).max()
    samples += random.normal(size=len(samples)) * random.uniform(0.05, 0.25)
    return samples / numpy.abs(samples).max()


def _word(
    phones: list[str], speed: float, tract: float, pitch: float, random: numpy.random.RandomState
) -> numpy.ndarray:
    parts: list[numpy.ndarray] = []
    voiced: list[str] = []
    for phone in [*phones, ""]:
        if phone in _VOICED:
            voiced.append(phone)
            continue
        if voiced:
            parts.append(_harmonics(voiced, speed, tract, pitch * random.uniform(0.9, 1.1), random))
            voiced = []
        if phone:
            center, width, noise_ms, pause_ms = _NOISE[phone]
            parts.append(numpy.zeros(_num_samples(pause_ms, speed)))
            parts.append(_noise(center * tract, width, _num_samples(noise_ms, speed), random))
    return numpy.concatenate(parts)


def _harmonics(
    phones: list[str], speed: float, tract: float, pitch: float, random: numpy.random.RandomState
) -> numpy.ndarray:
    durations = [_num_samples(_VOICED[phone][3], speed * random.uniform(0.8, 1.25)) for phone in phones]
    middles = numpy.cumsum(durations) - numpy.array(durations) / 2
    points = numpy.arange(0, sum(durations), _STEP)
    formants = [numpy.interp(points, middles, [_VOICED[p][i] * tract for p in phones]) for i in range(3)]
    samples = numpy.arange(sum(durations))
    f0 = pitch * numpy.linspace(1.05, 0.92, len(samples))
    phase = 2 * numpy.pi * numpy.cumsum(f0) / SAMPLE_RATE
    total = numpy.zeros(len(samples))
    for harmonic in range(1, int(SAMPLE_RATE / 2 / f0.max())):
        frequency = harmonic * f0[points]
        strength = sum(
            gain / (1 + ((frequency - formant) / width) ** 2)
            for gain, formant, width in zip((1.0, 0.6, 0.3), formants, (60, 90, 150), strict=True)
        )
        total += numpy.interp(samples, points, strength) * numpy.sin(harmonic * phase)
    edge = numpy.minimum(numpy.minimum(samples, samples[::-1]) / 120, 1.0)
    return total * edge


def _noise(center: float, width: float, num: int, random: numpy.random.RandomState) -> numpy.ndarray:
    """:return: (num,)"""
    spectrum = numpy.fft.rfft(random.normal(size=num))
    frequencies = numpy.fft.rfftfreq(num, 1 / SAMPLE_RATE)
    shaped = numpy.fft.irfft(spectrum * numpy.exp(-(((frequencies - center) / width) ** 2)), num)
    return 0.5 * shaped * numpy.hanning(num)


def _num_samples(duration_ms: float, speed: float) -> int:
    return int(duration_ms / 1000 / speed * SAMPLE_RATE)


def _silence(random: numpy.random.RandomState, shortest_s: float, longest_s: float) -> numpy.ndarray:
    """:return: zeros"""
    return numpy.zeros(int(random.uniform(shortest_s, longest_s) * SAMPLE_RATE))


def _wav(samples: numpy.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as audio:
        audio.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
        audio.writeframes((samples * 32000).astype("int16").tobytes())
    return file.getvalue()
