"""`LibriSpeechCorpus`: the corpus as it is distributed, in folders or in zip archives."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from returnn.datasets.audio.speech_dataset import SpeechDataset, random_subset
from returnn.datasets.core.epoch_wise_filter import EpochWiseFilterOption, FilterRule, filter_by_mean_len
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen, SeqOrder
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.datasets.util.text_post_process import TextFunc, get_post_processor_function
from returnn.datasets.util.vocabulary import BytePairEncoding, CharacterTargets, Vocabulary
from returnn.datasets.util.zip_file import ZipReader
from returnn.util.errors import ConfigError
from returnn.util.files.cache_manager import cf

_TRANSCRIPT_NAME = re.compile(r"(\d+)-(\d+)\.trans\.txt")


@dataclass(frozen=True)
class _Utterance:
    """One recording: `SUBDIR/SPEAKER/CHAPTER/SPEAKER-CHAPTER-SEQ.flac`."""

    subdir: str
    speaker: int
    chapter: int
    seq: int
    text: str = field(repr=False)

    @property
    def path(self) -> str:
        """Below the root, without the ending."""
        return f"{self.subdir}/{self.speaker}/{self.chapter}/{self.speaker}-{self.chapter}-{self.seq:04}"


class LibriSpeechCorpus(SpeechDataset):
    """
    LibriSpeech (Panayotov et al. 2015), from openslr.org/12.

    The folder `path` has `train-clean-100`, `dev-clean` and so on; or archives `train-clean-100.zip`, in which the
    files may stand below `LibriSpeech/`.
    """

    def __init__(
        self,
        path: str,
        prefix: str,
        audio: Mapping[str, Any] | ExtractAudioFeatures | None,
        orth_post_process: str | TextFunc | Sequence[str | TextFunc] | None = None,
        targets: Mapping[str, Any] | Vocabulary | None = None,
        chars: Mapping[str, Any] | None = None,
        bpe: Mapping[str, Any] | None = None,
        use_zip: bool = False,
        use_ogg: bool = False,
        use_cache_manager: bool = False,
        fixed_random_subset: float | None = None,
        epoch_wise_filter: EpochWiseFilterOption = None,
        name: str | None = None,
        seq_tag_format: str = "%(subdir)s-%(speaker)i-%(chapter)i-%(seq)04i",
        **kwargs: Any,
    ) -> None:
        """
        :param path: of the corpus
        :param prefix: of the names of the folders or archives to read: "train", "dev", "train-clean", ...
        :param audio: options of `ExtractAudioFeatures`; None: there is no "data"
        :param orth_post_process: changes the text first, see `get_post_processor_function`
        :param targets: options of `Vocabulary`; None: there are no "classes"
        :param chars: instead of `targets`: options of `CharacterTargets`
        :param bpe: instead of `targets`: options of `BytePairEncoding`
        :param use_zip: reads archives instead of folders
        :param use_ogg: the files end with `.flac.ogg` instead of `.flac`
        :param use_cache_manager: reads local copies of the archives
        :param fixed_random_subset: fraction (as float) or number of sequences to take, the same in all epochs
        :param epoch_wise_filter: options of `EpochWiseFilter`. The length is in characters of the text.
        :param name: for messages; by default, `prefix`
        :param seq_tag_format: of the tags
        """
        targets = _one_of(targets, chars, bpe)
        super().__init__(
            audio=audio, targets=targets, epoch_wise_filter=epoch_wise_filter, name=name or f"prefix:{prefix}", **kwargs
        )
        self.path = path
        self.prefix = prefix
        self.use_zip = use_zip
        self.use_ogg = use_ogg
        self.orth_post_process = get_post_processor_function(orth_post_process) if orth_post_process else None
        self._seq_tag_format = seq_tag_format
        if use_cache_manager and not use_zip:
            raise ConfigError(f"{self.description}: option 'use_cache_manager' is only possible with 'use_zip'.")
        self._use_cache_manager = use_cache_manager
        self._archives: dict[str, ZipReader] = {}
        self._archive_names: dict[str, frozenset[str]] = {}
        utterances = [utterance for subdir in self._find_subdirs() for utterance in self._read_transcripts(subdir)]
        if not utterances:
            raise DataError("there are no recordings", dataset=self.description, file=path)
        subset = random_subset(len(utterances), fixed_random_subset, seed=42, where=self.description)
        self._utterances = [utterances[int(i)] for i in subset]

    @property
    def transs(self) -> dict[tuple[str, int, int, int], str]:
        """All texts, by folder, speaker, chapter and number."""
        return {(u.subdir, u.speaker, u.chapter, u.seq): u.text for u in self._utterances}

    # Files.

    def _find_subdirs(self) -> list[str]:
        try:
            names = sorted(os.listdir(self.path))
        except OSError as exc:
            raise DataError(f"cannot be read ({exc.strerror})", dataset=self.description, file=self.path) from exc
        if self.use_zip:
            names = [name.removesuffix(".zip") for name in names if name.endswith(".zip")]
        else:
            names = [name for name in names if os.path.isdir(f"{self.path}/{name}")]
        matching = [name for name in names if name.startswith(self.prefix)]
        if not matching:
            kind = "archives" if self.use_zip else "folders"
            raise ConfigError(
                f"{self.description}: option 'prefix': none of the {kind} in {self.path} starts with {self.prefix!r}.\n"
                f"  There are: {', '.join(names) or 'none'}."
            )
        return matching

    def _archive(self, subdir: str) -> ZipReader:
        if subdir not in self._archives:
            path = f"{self.path}/{subdir}.zip"
            path = cf(path) if self._use_cache_manager else path
            self._archives[subdir] = ZipReader(path)
            self._watch_file(path)
        return self._archives[subdir]

    def _read_transcripts(self, subdir: str) -> list[_Utterance]:
        utterances = []
        for name in self._transcript_names(subdir):
            match = _TRANSCRIPT_NAME.fullmatch(os.path.basename(name))
            assert match
            speaker, chapter = int(match.group(1)), int(match.group(2))
            for line in self._read_file(subdir, name).decode("utf8").splitlines():
                if line.strip():
                    seq_name, _, text = line.partition(" ")
                    utterances.append(_Utterance(subdir, speaker, chapter, int(seq_name.split("-")[-1]), text.strip()))
        return sorted(utterances, key=lambda u: (u.subdir, u.speaker, u.chapter, u.seq))

    def _transcript_names(self, subdir: str) -> list[str]:
        if self.use_zip:
            names = self._archive(subdir).names()
        else:
            root = f"{self.path}/{subdir}"
            names = [
                os.path.relpath(f"{folder}/{name}", self.path) for folder, _, files in os.walk(root) for name in files
            ]
        return sorted(name for name in names if _TRANSCRIPT_NAME.fullmatch(os.path.basename(name)))

    def _read_file(self, subdir: str, name: str) -> bytes:
        if self.use_zip:
            return self._archive(subdir).read(name)
        try:
            with open(f"{self.path}/{name}", "rb") as file:
                return file.read()
        except OSError as exc:
            filename = f"{self.path}/{name}"
            raise DataError(f"cannot be read ({exc.strerror})", dataset=self.description, file=filename) from exc

    # Data.

    def _audio_name(self, utterance: _Utterance) -> str:
        name = utterance.path + (".flac.ogg" if self.use_ogg else ".flac")
        if self.use_zip and f"LibriSpeech/{name}" in self._names_in_archive(utterance.subdir):
            return f"LibriSpeech/{name}"
        return name

    def _names_in_archive(self, subdir: str) -> frozenset[str]:
        if subdir not in self._archive_names:
            self._archive_names[subdir] = frozenset(self._archive(subdir).names())
        return self._archive_names[subdir]

    def _audio_bytes(self, corpus_seq_idx: int) -> bytes:
        utterance = self._utterances[corpus_seq_idx]
        return self._read_file(utterance.subdir, self._audio_name(utterance))

    def _text(self, corpus_seq_idx: int) -> str:
        text = self._utterances[corpus_seq_idx].text
        return self.orth_post_process(text) if self.orth_post_process else text

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        u = self._utterances[corpus_seq_idx]
        return self._seq_tag_format % {"subdir": u.subdir, "speaker": u.speaker, "chapter": u.chapter, "seq": u.seq}

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        utterance = self._utterances[corpus_seq_idx]
        name = self._audio_name(utterance)
        return f"{name} in {self.path}/{utterance.subdir}.zip" if self.use_zip else f"{self.path}/{name}"

    def _seq_len_func(self) -> GetSeqLen:
        return lambda corpus_seq_idx: len(self._utterances[corpus_seq_idx].text)

    def _filtered(self, order: SeqOrder, rule: FilterRule) -> SeqOrder:
        if rule.subdirs is not None:
            subdirs = set(rule.subdirs)
            kept = [int(i) for i in order if self._utterances[int(i)].subdir in subdirs]
            order = np.array(kept, dtype=np.int64)
        return filter_by_mean_len(order, self._seq_len_func(), rule)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._utterances)


def _one_of(
    targets: Mapping[str, Any] | Vocabulary | None, chars: Mapping[str, Any] | None, bpe: Mapping[str, Any] | None
) -> Mapping[str, Any] | Vocabulary | None:
    given = [option for option in (targets, chars, bpe) if option is not None]
    if len(given) > 1:
        raise ConfigError("LibriSpeechCorpus: only one of the options 'targets', 'chars' and 'bpe' is possible.")
    if chars is not None:
        return CharacterTargets(**chars)
    if bpe is not None:
        return BytePairEncoding(**bpe)
    return targets
