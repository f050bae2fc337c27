"""Audio files from bytes. Plain wav needs no further package; everything else goes through `soundfile`."""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy
import numpy.typing

from returnn.log import log
from returnn.util.errors import MissingPackageError, UserError
from returnn.util.python.optional_import import import_optional
from returnn.util.texts.counted import counted

Audio: TypeAlias = numpy.typing.NDArray[Any]  # float32
_BEGINNINGS = (b"RIF", b"OggS", b"fLaC", b"ID3", b"\xff", b"FORM", b".snd", b"caff", b"NIST_1A", b"RF64", b"riff")
_NUM_SHOWN_BYTES = 20
_MAX_KNOWN_BYTES = 0x7FFF0000  # programs that write into a pipe know no length, and say so much or more


def decode_audio(
    content: bytes, *, name: str, max_s: float = math.inf, warn: Callable[[str], None] = log.print_warning
) -> tuple[Audio, int]:
    """
    :param content: of the file
    :param name: for errors
    :param max_s: more seconds than that are an error, and are not decoded
    :param warn: is told if the file is shorter than its header says
    :return: (samples,) for one channel, otherwise (samples, channels), within -1 and 1; and the sample rate in Hz
    :raises UserError: if it is no audio, has no samples, or is too long
    """
    if not content:
        raise UserError(f"{name}: the audio file is empty.")
    audio, sample_rate = _decode_wav(content, name, warn) or _decode_any(content, name, max_s)
    if not sample_rate:
        raise UserError(f"{name}: the audio has a sample rate of 0 Hz.")
    if len(audio) > max_s * sample_rate:
        raise UserError(f"{name}: the audio is longer than {max_s:g} seconds, at {sample_rate} Hz.")
    if not len(audio):
        raise UserError(f"{name}: the audio has no samples.")
    if not numpy.isfinite(audio).all():
        raise UserError(f"{name}: the audio has samples that are not finite (NaN or inf).")
    return (audio[:, 0] if audio.ndim == 2 and audio.shape[1] == 1 else audio), sample_rate


def _decode_wav(content: bytes, name: str, warn: Callable[[str], None]) -> tuple[Audio, int] | None:
    """
    :return: None if it is no wav, or is one with a coding other than integers
    :raises UserError: if its header ends too early, or makes no sense
    """
    if not content.startswith(b"RIFF"):
        return None
    try:
        with wave.open(io.BytesIO(content)) as file:
            frame_bytes = file.getsampwidth() * file.getnchannels()
            found = file.readframes(file.getnframes())
            samples = _integers(found[: len(found) // frame_bytes * frame_bytes], file.getsampwidth())
            audio = samples.reshape(-1, file.getnchannels())
            if len(audio) + 1 < file.getnframes() < _MAX_KNOWN_BYTES // frame_bytes:
                warn(
                    f"{name}: the audio file says that it has {counted(file.getnframes(), 'sample', ',')}, and has "
                    f"{len(audio):,}. Was it written to its end?"
                )
            return audio, file.getframerate()
    except (wave.Error, EOFError) as exc:
        if content[8:12] != b"WAVE" or "format" in str(exc):
            return None
        problem = str(exc) or "its header ends too early"
        raise UserError(
            f"{name}: the wav file is broken: {problem}. It has {counted(len(content), 'byte', ',')}."
        ) from exc


def _integers(content: bytes, width: int) -> Audio:
    """:param width: bytes per sample; 1 is unsigned, the others are signed, little endian"""
    if width == 1:
        return (numpy.frombuffer(content, "uint8").astype("float32") - 128) / 128
    if width == 3:  # as the upper bytes of 32 bits
        padded = numpy.zeros((len(content) // 3, 4), "uint8")
        padded[:, 1:] = numpy.frombuffer(content, "uint8").reshape(-1, 3)
        return _integers(padded.tobytes(), 4)
    samples: Audio = numpy.frombuffer(content, f"<i{width}").astype("float32")
    return samples / float(2 ** (8 * width - 1))


def _decode_any(content: bytes, name: str, max_s: float) -> tuple[Audio, int]:
    begin = f"It begins with the bytes {content[:_NUM_SHOWN_BYTES]!r}"
    try:
        soundfile: Any = import_optional("soundfile", needed_for=f"audio other than plain wav ({name})")
    except MissingPackageError as exc:
        if content.startswith(_BEGINNINGS) or content[4:8] == b"ftyp":
            raise
        raise UserError(f"{name}: is no wav. {begin}, as no usual audio does.\n  For unusual ones: {exc}") from exc
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            sample_rate = file.samplerate
            # A small file can have hours of silence.
            audio = file.read(-1 if max_s == math.inf else int(max_s * sample_rate) + 1, dtype="float32")
    except soundfile.LibsndfileError as exc:
        raise UserError(f"{name}: cannot decode the audio: {exc.error_string.rstrip('.')}. {begin}.") from exc
    return audio, sample_rate
