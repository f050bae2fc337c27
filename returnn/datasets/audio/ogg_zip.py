"""`OggZipDataset`: recordings in zip archives, with a list of their texts."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from returnn.datasets.audio.speech_dataset import SpeechDataset, random_subset
from returnn.datasets.core.epoch_wise_filter import EpochWiseFilterOption
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.datasets.util.seq_lists import load_seq_list
from returnn.datasets.util.text_post_process import TextFunc, get_post_processor_function
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.datasets.util.zip_file import ZipReader
from returnn.util.errors import ConfigError, UserError
from returnn.util.files.cache_manager import cf
from returnn.util.files.text_file import read_text
from returnn.util.texts.counted import counted

_TEXT_ENDINGS = (".txt.gz", ".txt")


class _Recording(NamedTuple):
    tag: str
    text: str
    duration: float  # in seconds
    file: str | None  # name in the list
    archive: _Archive


@dataclass(frozen=True)
class _Archive:
    """What has one name: the zip file, or the list of texts, or both."""

    name: str
    zip_path: str | None
    list_path: str | None  # instead of the list in the zip file
    zip: ZipReader | None

    def read_list(self) -> tuple[str, str]:
        """:return: text of the list, and where it is"""
        if self.list_path is not None:
            return read_text(self.list_path), self.list_path
        assert self.zip
        name = f"{self.name}.txt"
        place = f"{name} in {self.zip.filename}"
        if name not in self.zip.names():
            lists = [other for other in self.zip.names() if other.endswith(".txt")]
            raise UserError(
                f"the archive {self.zip.filename!r} has no list {name!r}, but {', '.join(lists) or 'no .txt file'}."
                + (f"\n  Set the option 'content_name' to {lists[0].removesuffix('.txt')!r}." if lists else "")
            )
        try:
            return self.zip.read(name).decode("utf-8"), place
        except UnicodeDecodeError as exc:
            raise UserError(f"{place} is not UTF-8: {exc}") from exc


def _name_of_content(archive: ZipReader, name: str) -> str:
    """:return: that of the archive, or of the only list in it: the file may have been renamed"""
    lists = [other for other in archive.names() if other.endswith(".txt") and "/" not in other]
    return lists[0].removesuffix(".txt") if f"{name}.txt" not in lists and len(lists) == 1 else name


class OggZipDataset(SpeechDataset):
    """
    The archive `NAME.zip` has the file `NAME.txt`, a Python list with a dict for each recording:

        {"text": "hello", "duration": 1.5, "file": "a.ogg", "seq_name": "a"}

    and the recordings as `NAME/a.ogg`: Ogg, wav, FLAC, or whatever the package `soundfile` reads. The tag is
    `seq_name`, or else `file`.
    """

    def __init__(
        self,
        path: str | Sequence[str],
        audio: Mapping[str, Any] | None,
        targets: Mapping[str, Any] | Vocabulary | None,
        targets_post_process: str | TextFunc | Sequence[str | TextFunc] | None = None,
        use_cache_manager: bool = False,
        segment_file: str | None = None,
        zip_audio_files_have_name_as_prefix: bool = True,
        fixed_random_subset: float | None = None,
        fixed_random_subset_seed: int = 42,
        epoch_wise_filter: EpochWiseFilterOption = None,
        resolve_symlink_for_name: bool = False,
        content_name: str | None = None,
        **kwargs: Any,
    ):
        """
        :param path: the archive, or several ones. With `NAME.txt` or `NAME.txt.gz` among them, the list of `NAME.zip`
            is read from there
        :param audio: options of `ExtractAudioFeatures`; None: there is no "data"
        :param targets: options of `Vocabulary`; None: there are no "classes"
        :param targets_post_process: changes the text first, see `get_post_processor_function`
        :param use_cache_manager: read local copies of the files
        :param segment_file: tags of the sequences to take, one per line
        :param zip_audio_files_have_name_as_prefix: otherwise, they are not in a folder `NAME`
        :param fixed_random_subset: fraction (as float) or number of sequences to take, the same in all epochs
        :param fixed_random_subset_seed: of this choice
        :param epoch_wise_filter: options of `EpochWiseFilter`. The length is in 1/100 seconds, or without audio, in
            characters
        :param resolve_symlink_for_name: `NAME` is that of the file behind a symbolic link
        :param content_name: `NAME` in the archive, if it has several lists. Default: that of the archive, or of its
            only list
        """
        super().__init__(audio=audio, targets=targets, epoch_wise_filter=epoch_wise_filter, **kwargs)
        self.paths = [path] if isinstance(path, str) else list(path)
        self.targets_post_process = get_post_processor_function(targets_post_process) if targets_post_process else None
        self.zip_audio_files_have_name_as_prefix = zip_audio_files_have_name_as_prefix
        self.segments = set(load_seq_list(segment_file, where=self.description)) if segment_file else None
        archives = self._open_archives(use_cache_manager, resolve_symlink_for_name, content_name)
        for archive in archives:
            if archive.zip_path is not None:
                self._watch_file(archive.zip_path)
        recordings = self._selected([rec for archive in archives for rec in self._read_recordings(archive)])
        subset = random_subset(
            len(recordings), fixed_random_subset, seed=fixed_random_subset_seed, where=self.description
        )
        self._recordings = [recordings[i] for i in subset]
        if self.feature_extractor:
            self._check_files()

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._recordings)

    def _open_archives(
        self, use_cache_manager: bool, resolve_symlink_for_name: bool, content_name: str | None
    ) -> list[_Archive]:
        zip_paths: dict[str, str] = {}
        list_paths: dict[str, str] = {}
        for path in self.paths:
            name = os.path.basename(os.path.realpath(path) if resolve_symlink_for_name else path)
            ending = next((ending for ending in _TEXT_ENDINGS if name.endswith(ending)), None)
            by_name = list_paths if ending else zip_paths
            by_name[name.removesuffix(ending or ".zip")] = cf(path) if use_cache_manager else path
        without_zip = sorted(set(list_paths) - set(zip_paths))
        if (not zip_paths and not list_paths) or (self.feature_extractor and without_zip):
            raise ConfigError(
                f"{self.description}: option 'path' has no archive '{(without_zip or ['NAME'])[0]}.zip': {self.paths}."
            )
        archives = []
        for name in {**zip_paths, **list_paths}:
            reader = ZipReader(zip_paths[name]) if name in zip_paths else None
            inner = content_name or (name if name in list_paths or reader is None else _name_of_content(reader, name))
            archives.append(_Archive(inner, zip_paths.get(name), list_paths.get(name), reader))
        return archives

    def _read_recordings(self, archive: _Archive) -> Iterator[_Recording]:
        text, place = archive.read_list()
        entries = _parse_list(text, place)
        if not entries:
            raise DataError("the list of recordings is empty", dataset=self.description, file=place)
        for i, entry in enumerate(entries):
            yield self._recording(entry, archive, f"{place}, entry {i}")

    def _recording(self, entry: Any, archive: _Archive, place: str) -> _Recording:
        if not isinstance(entry, dict):
            raise DataError(f"expected a dict, got {type(entry).__name__}", dataset=self.description, file=place)
        needed = ["text", "file", "duration"] if self.feature_extractor else ["text"]
        for name in needed:
            if name not in entry:
                raise DataError(
                    f"{name!r} is missing", dataset=self.description, file=place, hint=f"There is: {', '.join(entry)}."
                )
        tag = entry.get("seq_name") or entry.get("file")
        if tag is None:
            raise DataError("'seq_name' and 'file' are missing", dataset=self.description, file=place)
        return _Recording(tag, entry["text"], float(entry.get("duration", 0)), entry.get("file"), archive)

    def _selected(self, recordings: list[_Recording]) -> list[_Recording]:
        if self.segments is None:
            return recordings
        selected = [recording for recording in recordings if recording.tag in self.segments]
        if not selected:
            raise ConfigError(
                f"{self.description}: option 'segment_file': none of its {counted(len(self.segments), 'tag')} is in "
                "the data.\n"
                f"  It has tags such as {min(self.segments)!r}, the data has {recordings[0].tag!r}."
            )
        return selected

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return self._recordings[corpus_seq_idx].tag

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        recording = self._recordings[corpus_seq_idx]
        return (
            f"{recording.file or recording.archive.name} in {recording.archive.zip_path or recording.archive.list_path}"
        )

    def _text(self, corpus_seq_idx: int) -> str:
        text = self._recordings[corpus_seq_idx].text
        return self.targets_post_process(text) if self.targets_post_process else text

    def _check_files(self) -> None:
        """:raises DataError: now, and not in the middle of an epoch, if an archive lacks the audio of a recording"""
        there: dict[str, set[str]] = {}
        for recording in self._recordings:
            archive = recording.archive
            assert archive.zip
            if archive.name not in there:
                there[archive.name] = set(archive.zip.names())
            name = self._name_in_archive(recording)
            if name not in there[archive.name]:
                raise DataError(
                    f"there is no file {name!r} in the archive {archive.zip.filename!r}",
                    dataset=self.description,
                    seq=recording.tag,
                    file=f"{recording.file} in {archive.zip.filename}",
                )

    def _name_in_archive(self, recording: _Recording) -> str:
        prefix = f"{recording.archive.name}/" if self.zip_audio_files_have_name_as_prefix else ""
        return f"{prefix}{recording.file}"

    def _audio_bytes(self, corpus_seq_idx: int) -> bytes:
        recording = self._recordings[corpus_seq_idx]
        assert recording.archive.zip
        return recording.archive.zip.read(self._name_in_archive(recording))

    def _seq_len_func(self) -> GetSeqLen:
        if self.feature_extractor:
            return lambda i: int(self._recordings[i].duration * 100)
        return lambda i: len(self._recordings[i].text)


def _parse_list(text: str, place: str) -> list[Any]:
    """Usually, each line is a dict. Reading them one after another takes a fraction of the memory."""
    lines = text.strip().removeprefix("[").removesuffix("]").strip().splitlines()
    try:
        entries = [ast.literal_eval(line.strip().removesuffix(",")) for line in lines if line.strip()]
        if all(isinstance(entry, dict) for entry in entries):
            return entries
    except (SyntaxError, ValueError):
        pass
    try:
        content = ast.literal_eval(text.strip())
    except (SyntaxError, ValueError) as exc:
        at = f", line {exc.lineno}" if isinstance(exc, SyntaxError) else ""
        raise UserError(f"{place}{at}: it is no Python list of dicts: {exc.args[0]}") from exc
    if not isinstance(content, list):
        raise UserError(f"{place}: expected a Python list of dicts, got {type(content).__name__}.")
    return content
