"""
An archive of `OggZipDataset`: the list of texts, and their audio. The recordings are segments of a Bliss corpus, or the
files of a folder.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import wave
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy

from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.bliss import BlissSegment
from returnn.datasets.util.rasr_archive import open_file_archive
from returnn.tools.bliss_segments import duration_of, recording_of
from returnn.tools.transcripts import read_transcripts
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import open_atomic
from returnn.util.files.text_file import iter_lines
from returnn.util.python.optional_import import import_optional
from returnn.util.texts.counted import counted

_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same for all, so that the same corpus gives the same archive
_SEEK_S = 10.0  # decoded before a segment of a long recording, and thrown away
_OUT_TIME = re.compile(r"^out_time_[um]s=(\d+)$", re.MULTILINE)  # both in microseconds, and N/A if nothing came out
AUDIO_SUFFIXES = (".wav", ".ogg", ".flac", ".mp3")
MakeAudio = Callable[[BlissSegment, str], str]  # segment, file without suffix -> file with its audio


@dataclass(frozen=True)
class FfmpegOptions:
    """How the program encodes. 0 and None: as it is in the source, or as the program chooses."""

    codec: str | None = None  # libsndfile 1.2, which reads the archive, does not know FLAC in Ogg as ffmpeg writes it
    loglevel: str = "info"  # of what is said if it fails
    sample_rate: int = 0
    num_channels: int = 0

    def as_args(self) -> list[str]:
        """:return: for the command line, without those of the log"""
        args = ["-acodec", self.codec] if self.codec else []
        args += ["-ar", str(self.sample_rate)] if self.sample_rate else []
        return [*args, "-ac", str(self.num_channels)] if self.num_channels else args


@dataclass(frozen=True)
class Contents:
    """What is in an archive. The sound is known of whole files alone."""

    num: int  # of segments
    seconds: float
    sounds: Mapping[tuple[int, int], Sequence[str]]  # sample rate in Hz, number of channels -> names of segments
    without_words: Sequence[str]  # names of segments whose text is empty

    def warnings(self) -> list[str]:
        """:return: what is seldom wanted, a sentence each"""
        rates, channels = (sorted({sound[i] for sound in self.sounds}) for i in range(2))
        found = []
        if len(rates) > 1:
            found.append(
                f"there are several sample rates: {self._examples(0, '{} Hz'.format)}."
                "\n  Set 'sample_rate' of the option 'audio', to which all audio is resampled then."
            )
        if channels and channels[-1] > 1:
            found.append(
                f"there is audio of several channels: {self._examples(1, lambda num: counted(num, 'channel'))}."
                "\n  Features are made of one, unless the option 'audio' has 'num_channels'. 'ffmpeg -i IN.wav -ac 1"
                " OUT.wav' mixes them."
            )
        if self.without_words:
            num = counted(len(self.without_words), "recording")
            found.append(f"the text of {num} is empty, such as that of {self.without_words[0]!r}.")
        return found

    def _examples(self, part: int, in_words: Callable[[int], str]) -> str:
        names: dict[int, list[str]] = {}
        for sound, of_sound in self.sounds.items():
            names.setdefault(sound[part], []).extend(of_sound)
        examples = {value: f"in {len(names[value])}, such as {names[value][0]!r}" for value in sorted(names)}
        return ", ".join(f"{in_words(value)} {example}" for value, example in examples.items())


def write_ogg_zip(
    segments: Iterable[BlissSegment], filename: str, *, make_audio: MakeAudio | None, folder: str
) -> Contents:
    """
    :param segments: their names are the tags
    :param filename: of the archive, complete or as it was before
    :param make_audio: None: the archive has texts alone
    :param folder: for the audio files, before they are in the archive
    :return: what is in it now
    :raises UserError: if there are none, or something is wrong with one
    """
    found = list(segments)
    if not found:
        raise UserError("there are no segments in the corpus, or none that are wanted.")
    _check_names(found)
    files: Sequence[str | None] = [None] * len(found)
    if make_audio is not None:
        paths = [os.path.join(folder, str(i)) for i in range(len(found))]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            files = list(pool.map(make_audio, found, paths))
    sounds: dict[tuple[int, int], list[str]] = {}
    entries = [_entry(segment, file, sounds) for segment, file in zip(found, files, strict=True)]
    name = os.path.basename(filename).removesuffix(".zip")
    with open_atomic(filename, "wb") as out, zipfile.ZipFile(out, "w") as archive:
        text = "[\n" + "".join(f"{entry!r},\n" for entry in entries) + "]\n"
        archive.writestr(zipfile.ZipInfo(f"{name}.txt", _ZIP_DATE), text, zipfile.ZIP_DEFLATED)
        for entry, file in zip(entries, files, strict=True):
            if file is not None:
                archive.writestr(zipfile.ZipInfo(f"{name}/{entry['file']}", _ZIP_DATE), Path(file).read_bytes())
    seconds = sum(float(entry["duration"]) for entry in entries)
    return Contents(len(entries), seconds, sounds, [segment.name for segment in found if not segment.orth.strip()])


def segments_of_folder(folder: str, text: str) -> list[BlissSegment]:
    """
    :param folder: with audio files, also in folders below it; or a file that lists them, as `wav.scp` of Kaldi does, by
        lines `NAME FILE`
    :param text: file with the texts of the recordings that are wanted, see `transcripts`
    :return: whole files, in the order of the text
    :raises UserError: if a text has no file, or several
    """
    if os.path.isdir(text):
        raise UserError(
            f"the texts are in a file, but {text!r} is a folder. The folder is the first argument: {folder!r} and"
            f" {text!r} may be swapped."
        )
    files = _files_by_name(folder)
    segments = []
    wheres: dict[str, str] = {}
    for transcript in read_transcripts(text):
        name, found = _files_of_recording(transcript.name, files, folder=folder, text=text)
        if len(found) != 1:
            several = f"has several files: {', '.join(found)}."
            none = f"has no audio file.\n  There are {len(files)} in {folder!r}, such as that of {next(iter(files))!r}."
            if os.path.exists(os.path.join(os.path.dirname(text), "wav.scp")) and os.path.isdir(folder):
                none += " As the first argument, the list 'wav.scp' beside the text says which file is which recording."
            raise UserError(f"{transcript.where}: the recording {transcript.name!r} {several if found else none}")
        if name in wheres:
            raise UserError(f"{transcript.where}: the recording {name!r} has a text already: {wheres[name]}.")
        wheres[name] = transcript.where
        segments.append(BlissSegment(name=name, audio=found[0], start=0.0, end=None, orth=transcript.text))
    if not segments:
        raise UserError(f"{text}: there is no line 'NAME TEXT' in it, which would be about a recording.")
    return segments


def files_without_text(folder: str, segments: Iterable[BlissSegment]) -> list[str]:
    """
    :param folder: see `segments_of_folder`
    :param segments: what that has found
    :return: audio files of other recordings
    """
    names = {segment.name for segment in segments}
    return [file for name, files in _files_by_name(folder).items() if name not in names for file in files]


def _files_by_name(folder: str) -> dict[str, list[str]]:
    if os.path.isfile(folder):
        return _listed_files(folder)
    if not os.path.isdir(folder):
        raise UserError(f"there is no folder {folder!r}.")
    files: dict[str, list[str]] = {}
    for path in sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in AUDIO_SUFFIXES):
        files.setdefault(_recording_name(path.relative_to(folder)), []).append(str(path))
    if not files:
        raise UserError(f"there is no audio file ({', '.join(AUDIO_SUFFIXES)}) in {folder!r}.")
    return files


def _listed_files(filename: str) -> dict[str, list[str]]:
    """:return: by name; those of a list are named as in Kaldi, from where it runs, or from the list itself"""
    files: dict[str, list[str]] = {}
    for line_nr, line in enumerate(iter_lines(filename), start=1):
        name, file = [*line.split(maxsplit=1), "", ""][:2]
        file = file.strip()
        where = f"{filename}, line {line_nr}"
        if not name:
            continue
        if not file or file.endswith("|"):
            problem = "is a command, whose output" if file else "has no file, which"
            raise UserError(f"{where}: the recording {name!r} {problem} would be the audio.\n  Expected 'NAME FILE'.")
        candidates = [file, os.path.join(os.path.dirname(filename), file)]
        found = next((path for path in candidates if os.path.isfile(path)), None)
        if found is None:
            raise UserError(f"{where}: the recording {name!r}: there is no file {file!r}.")
        files.setdefault(name, []).append(found)
    if not files:
        raise UserError(f"{filename}: there is no line 'NAME FILE' in it, which would be a recording.")
    return files


def _recording_name(path: Path) -> str:
    is_audio = path.suffix.lower() in AUDIO_SUFFIXES
    return (path.with_suffix("") if is_audio else path).as_posix()


def _files_of_recording(
    given: str, files: Mapping[str, Sequence[str]], *, folder: str, text: str
) -> tuple[str, Sequence[str]]:
    """
    :param given: a file, with its suffix or without; seen from the folder, from the text, or from here
    :param files: by name of the recording
    :return: name of the recording, its files
    """
    if given in files:  # as it is in a list
        return given, files[given]
    for start in (folder, os.path.dirname(text), ""):
        path = Path(os.path.relpath(os.path.join(start, given), folder)) if given else Path()
        found = files.get(_recording_name(path), [])
        if found:
            same = [file for file in found if Path(file).suffix == path.suffix]
            return _recording_name(path), same or found
    return given, []


def segment_by_ffmpeg(corpus: str, options: FfmpegOptions) -> MakeAudio:
    """
    :param corpus: its file; audio that is not found as it is named there is looked for beside it
    :param options: of the program
    :return: cuts a segment out of its recording
    """

    def make(segment: BlissSegment, path: str) -> str:
        file = _audio_file(segment, corpus)
        wanted = None if segment.end is None else duration_of(segment)
        seek = max(segment.start - _SEEK_S, 0.0)
        # Behind the input it cuts by samples. Before it, it seeks in the file, which fails in the last block of FLAC.
        for start in sorted({seek, 0.0}, reverse=True):
            source = ["-ss", str(start)] if start else []
            cut = ["-ss", str(round(segment.start - start, 6)), *(["-t", str(wanted)] if wanted is not None else [])]
            seconds = _encode([*source, "-i", file, *cut], f"{path}.ogg", options, segment)
            if not _is_too_short(seconds, wanted):
                return f"{path}.ogg"
        raise _too_short(segment, file, seconds, wanted)

    return make


def whole_recording(corpus: str, segments: Iterable[BlissSegment]) -> MakeAudio:
    """
    :param corpus: see `segment_by_ffmpeg`
    :param segments: all
    :return: takes the file of a recording as it is
    :raises UserError: if a recording has several segments
    """
    recordings: set[str] = set()
    for segment in segments:
        recording = recording_of(segment)
        if recording in recordings or segment.start > 0:
            raise UserError(
                f"option '--no_conversion': segment {segment.name!r} is a part of its recording, which has to be cut."
            )
        recordings.add(recording)
    return lambda segment, _path: _audio_file(segment, corpus)


def segment_of_cache(cache: str, options: FfmpegOptions, *, sample_rate: int, frame_rate: int) -> MakeAudio:
    """
    :param cache: file of an archive with, by name of the segment, samples of 16 bits: one per frame, or all of a frame
    :param options: of the program
    :param sample_rate: samples per second
    :param frame_rate: frames per second, if all samples of a frame are together
    :return: encodes the samples of a segment
    """

    frame_size = sample_rate // frame_rate
    archive = open_file_archive(cache)

    def make(segment: BlissSegment, path: str) -> str:
        if not archive.has_entry(segment.name):
            raise UserError(f"option '--sprint_cache': there is no entry {segment.name!r}.")
        _, samples = archive.read(segment.name, "feat")
        values = numpy.asarray(samples)
        if values.shape[1] not in (1, frame_size):
            raise UserError(
                f"option '--sprint_cache': entry {segment.name!r} has {values.shape[1]} values per frame. With "
                f"{sample_rate} samples and {frame_rate} frames per second, {frame_size} are expected, or 1."
            )
        with wave.open(f"{path}.wav", "wb") as file:
            file.setparams((1, 2, sample_rate, 0, "NONE", ""))
            file.writeframes(numpy.clip(values.round(), -(2**15), 2**15 - 1).astype("<i2").tobytes())
        wanted = None if segment.end is None else duration_of(segment)
        seconds = _encode(["-i", f"{path}.wav"], f"{path}.ogg", options, segment)
        if _is_too_short(seconds, wanted):
            raise _too_short(segment, cache, seconds, wanted)
        return f"{path}.ogg"

    return make


def _check_names(segments: Iterable[BlissSegment]) -> None:
    names: set[str] = set()
    for segment in segments:
        if segment.name in names:
            raise UserError(f"the corpus has several segments {segment.name!r}.")
        names.add(segment.name)


def _entry(segment: BlissSegment, file: str | None, sounds: dict[tuple[int, int], list[str]]) -> dict[str, str | float]:
    is_known = file is None or segment.end is not None
    entry: dict[str, str | float] = {
        "text": segment.orth,
        "duration": duration_of(segment) if is_known else _seconds_of(str(file), segment, sounds),
        "seq_name": segment.name,
    }
    return entry if file is None else {**entry, "file": f"{segment.name}{os.path.splitext(file)[1]}"}


def _seconds_of(file: str, segment: BlissSegment, sounds: dict[tuple[int, int], list[str]]) -> float:
    audio, rate = decode_audio(Path(file).read_bytes(), name=file)
    sounds.setdefault((rate, 1 if audio.ndim == 1 else audio.shape[1]), []).append(segment.name)
    return round(len(audio) / rate, 6)


def _audio_file(segment: BlissSegment, corpus: str) -> str:
    if segment.audio is None:
        raise UserError(f"Bliss segment {segment.name!r}: its recording has no 'audio'.")
    candidates = [segment.audio, os.path.join(os.path.dirname(corpus), segment.audio)]
    found = next((path for path in candidates if os.path.isfile(path)), None)
    if found is None:
        raise UserError(f"Bliss segment {segment.name!r}: the audio file {segment.audio!r} does not exist.")
    return found


def _encode(source: Sequence[str], target: str, options: FfmpegOptions, segment: BlissSegment) -> float:
    """
    :param source: arguments: the input, and what of it
    :return: how long the result is, in seconds
    """
    log = ["-nostdin", "-hide_banner", "-loglevel", f"level+{options.loglevel}", "-nostats", "-progress", "pipe:1"]
    exact = ["-vn", "-map_metadata", "-1", "-fflags", "+bitexact", "-flags:a", "+bitexact"]
    command = [find_ffmpeg(), *log, "-y", *source, *exact, *options.as_args(), target]
    result = subprocess.run(command, capture_output=True, check=False)
    said = result.stderr.decode("utf8", errors="replace").strip()
    if result.returncode != 0:
        text = said or f"exit status {result.returncode}"
        raise UserError(
            f"Bliss segment {segment.name!r}: ffmpeg failed: {text}\n  The command was: {' '.join(command)}"
        )
    for line in said.splitlines():
        if "[error]" in line:  # it has gone on, as with a damaged file
            print(f"WARNING: Bliss segment {segment.name!r}: ffmpeg: {line}", file=sys.stderr)
    times = _OUT_TIME.findall(result.stdout.decode("utf8", errors="replace"))
    return int(times[-1]) / 1e6 if times else 0.0


def _is_too_short(seconds: float, wanted: float | None) -> bool:
    """:param wanted: None: not known. Codecs may leave out a block, and corpora are not exact at the end of a file"""
    return seconds <= 0 or (wanted is not None and seconds < wanted - max(0.1, wanted / 10))


def _too_short(segment: BlissSegment, file: str, seconds: float, wanted: float | None) -> UserError:
    wants = (
        f"lasts {wanted:g} s, from {segment.start:g} s on" if wanted is not None else f"begins at {segment.start:g} s"
    )
    return UserError(f"Bliss segment {segment.name!r}: it {wants}, but of that, there is {seconds:g} s in {file!r}.")


@functools.cache
def find_ffmpeg() -> str:
    """
    :return: the program, or that of the package `imageio_ffmpeg`
    :raises UserError: if there is none
    """
    found = shutil.which("ffmpeg")
    if found is None:
        package = import_optional("imageio_ffmpeg", needed_for="encoding audio, as there is no program 'ffmpeg'")
        found = str(package.get_ffmpeg_exe())
    return found
