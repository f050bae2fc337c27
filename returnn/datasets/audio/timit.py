"""`TimitDataset`: phone sequences of the TIMIT corpus; `NltkTimitDataset`: the sample of it that NLTK has."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures, Norm
from returnn.util.errors import ConfigError, UserError
from returnn.util.python.optional_import import import_optional

# Lee and Hon, "Speaker-independent phone recognition using hidden Markov models", 1989, table II.
# 61 phones -> (48 phones, 39 phones). None: is left out.
_UNCHANGED = "aa ae ah aw ay b ch d dh dx eh er ey f g hh ih iy jh k l m n ng ow oy p r s sh t th uh uw v w y z"
_FOLDING: dict[str, tuple[str | None, str | None]] = {
    **{phone: (phone, phone) for phone in _UNCHANGED.split()},
    "ao": ("ao", "aa"),
    "ax": ("ax", "ah"),
    "ax-h": ("ax", "ah"),
    "axr": ("er", "er"),
    "bcl": ("vcl", "sil"),
    "dcl": ("vcl", "sil"),
    "gcl": ("vcl", "sil"),
    "pcl": ("cl", "sil"),
    "tcl": ("cl", "sil"),
    "kcl": ("cl", "sil"),
    "el": ("el", "l"),
    "em": ("m", "m"),
    "en": ("en", "n"),
    "eng": ("ng", "ng"),
    "epi": ("epi", "sil"),
    "h#": ("sil", "sil"),
    "pau": ("sil", "sil"),
    "hv": ("hh", "hh"),
    "ix": ("ix", "ih"),
    "nx": ("n", "n"),
    "q": (None, None),
    "ux": ("uw", "uw"),
    "zh": ("zh", "sh"),
}


class TimitDataset(CorpusDataset):
    """
    "data" has the features, "classes" the phones of the sequence. The SA sentences are left out, as usual.

    The folder has `train/dr1/fcjf0/si1027.wav` and `.phn` and so on, in lower or upper case.
    """

    PhoneMapTo61 = {phone: phone for phone in sorted(_FOLDING)}  # noqa: RUF012 (documented as class attributes)
    PhoneMapTo48 = {phone: _FOLDING[phone][0] for phone in sorted(_FOLDING)}  # noqa: RUF012
    PhoneMapTo39 = {phone: _FOLDING[phone][1] for phone in sorted(_FOLDING)}  # noqa: RUF012
    Phones61 = PhoneMapTo61.keys()

    def __init__(
        self,
        timit_dir: str,
        train: bool = True,
        preload: bool = False,
        features: str = "mfcc",
        num_feature_filters: int = 40,
        feature_window_len: float = 0.025,
        feature_step_len: float = 0.010,
        with_delta: bool = False,
        norm_mean: Norm = None,
        norm_std_dev: Norm = None,
        random_permute_audio: Mapping[str, Any] | bool | None = None,
        num_phones: int = 61,
        demo_play_audio: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param timit_dir: of the corpus, with the folders `train` and `test`
        :param train: the training part, otherwise the test part
        :param preload: reads all files at the beginning, and keeps the features
        :param features: see `ExtractAudioFeatures`
        :param num_feature_filters: features per frame
        :param feature_window_len: in seconds
        :param feature_step_len: from frame to frame, in seconds
        :param with_delta: whether to append the first derivative in time
        :param norm_mean: is subtracted, see `ExtractAudioFeatures`
        :param norm_std_dev: is divided by, see `ExtractAudioFeatures`
        :param random_permute_audio: changes speed, pitch and amplitude by chance, see `ExtractAudioFeatures`
        :param num_phones: 61, 48 or 39
        :param demo_play_audio: plays each recording when it is read (with the package `sounddevice`)
        """
        super().__init__(**kwargs)
        self._is_train = train
        self._timit_dir = timit_dir
        self._num_phones = num_phones
        self._demo_play_audio = demo_play_audio
        if demo_play_audio:
            _import_player(self.description)
        self._extractor = ExtractAudioFeatures(
            features=features,
            num_feature_filters=num_feature_filters,
            window_len=feature_window_len,
            step_len=feature_step_len,
            with_delta=with_delta,
            norm_mean=norm_mean,
            norm_std_dev=norm_std_dev,
            random_permute=random_permute_audio,
        )
        if preload and random_permute_audio:
            raise ConfigError(f"{self.description}: with 'random_permute_audio', 'preload' is not possible.")
        phones = self.get_labels(num_phones)
        self.labels = {"classes": phones}
        self.num_inputs = self._extractor.get_feature_dimension()
        self.num_outputs = {DEFAULT_KEY: (self.num_inputs, 2), "classes": (len(phones), 1)}
        self._recordings = self._find_recordings()  # tag, path without ending
        if not self._recordings:
            raise DataError("there are no recordings", dataset=self.description, file=timit_dir)
        self._preloaded: list[Mapping[str, Array]] | None = None
        if preload:
            self._preloaded = [self._read_recording(i) for i in range(len(self._recordings))]

    # Phones.

    @classmethod
    def _phone_map(cls, num_phones: int) -> Mapping[str, str | None]:
        maps: dict[int, Mapping[str, str | None]] = {61: cls.PhoneMapTo61, 48: cls.PhoneMapTo48, 39: cls.PhoneMapTo39}
        if num_phones not in maps:
            raise ConfigError(f"{cls.__name__}: option 'num_phones': {num_phones} is not possible, only 61, 48 or 39.")
        return maps[num_phones]

    @classmethod
    def get_labels(cls, num_phones: int = 61) -> list[str]:
        """:return: the phones in alphabetical order"""
        return sorted({phone for phone in cls._phone_map(num_phones).values() if phone is not None})

    @classmethod
    def get_label_map(cls, source_num_phones: int = 61, target_num_phones: int = 39) -> dict[int, int | None]:
        """:return: from the label in the larger set to that in the smaller one; None: it is left out"""
        source, target = cls._phone_map(source_num_phones), cls._phone_map(target_num_phones)
        source_labels, target_labels = cls.get_labels(source_num_phones), cls.get_labels(target_num_phones)
        folded = {source[phone]: target[phone] for phone in cls.Phones61}
        result = {}
        for i, label in enumerate(source_labels):
            phone = folded[label]
            result[i] = None if phone is None else target_labels.index(phone)
        return result

    # Files.

    def _find_recordings(self) -> list[tuple[str, str]]:
        part = "train" if self._is_train else "test"
        folder = next((f"{self._timit_dir}/{name}" for name in (part, part.upper()) if self._has(name)), None)
        if folder is None:
            raise DataError(f"has no folder {part!r}", dataset=self.description, file=self._timit_dir)
        return _list_recordings(folder)

    def _has(self, name: str) -> bool:
        return os.path.isdir(f"{self._timit_dir}/{name}")

    def _read_file(self, corpus_seq_idx: int, ending: str) -> bytes:
        path = self._recordings[corpus_seq_idx][1]
        for name in (path + ending, path + ending.upper()):
            if os.path.exists(name):
                with open(name, "rb") as file:
                    return file.read()
        tag = self._recordings[corpus_seq_idx][0]
        raise DataError("there is no such file", dataset=self.description, seq=tag, file=path + ending)

    def _read_phones(self, corpus_seq_idx: int) -> list[str]:
        lines = self._read_file(corpus_seq_idx, ".phn").decode("utf8").splitlines()
        phones = [line.split()[2] for line in lines if line.strip()]
        unknown = [phone for phone in phones if phone not in self.PhoneMapTo61]
        if unknown:
            tag, path = self._recordings[corpus_seq_idx]
            problem = f"there is no phone {unknown[0]!r}"
            raise DataError(problem, dataset=self.description, seq=tag, key="classes", file=f"{path}.phn")
        folded = [self._phone_map(self._num_phones)[phone] for phone in phones]
        return [phone for phone in folded if phone is not None]

    def _read_recording(self, corpus_seq_idx: int) -> Mapping[str, Array]:
        tag = self._corpus_tag(corpus_seq_idx)
        audio, sample_rate = decode_audio(self._read_file(corpus_seq_idx, ".wav"), name=tag)
        if self._demo_play_audio:
            _play(audio, sample_rate, where=self.description)
        labels = self.labels["classes"]
        return {
            DEFAULT_KEY: self._extractor.get_audio_features(audio, sample_rate, seq_name=tag),
            "classes": np.array([labels.index(phone) for phone in self._read_phones(corpus_seq_idx)], np.int32),
        }

    # Corpus.

    def _seed_random(self, seed: int) -> None:
        self._extractor.random_state.seed(seed)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._recordings)

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return self._recordings[corpus_seq_idx][0]

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        return self._recordings[corpus_seq_idx][1] + ".wav"

    def _seq_len_func(self) -> GetSeqLen:
        return lambda corpus_seq_idx: len(self._read_phones(corpus_seq_idx))

    def _read_corpus_seq(self, corpus_seq_idx: int) -> Mapping[str, Array]:
        if self._preloaded is not None:
            return self._preloaded[corpus_seq_idx]
        return self._read_recording(corpus_seq_idx)


def _play(audio: Array, sample_rate: int, *, where: str) -> None:
    sounddevice = _import_player(where)
    try:
        sounddevice.play(audio, sample_rate, blocking=True)
    except sounddevice.PortAudioError as exc:
        raise UserError(f"{where}: option 'demo_play_audio': no audio can be played: {exc}") from exc


def _import_player(where: str) -> Any:
    try:
        return import_optional("sounddevice", needed_for="the option 'demo_play_audio'")
    except OSError as exc:  # without the library below it
        raise UserError(f"{where}: option 'demo_play_audio': no audio can be played: {exc}") from exc


class NltkTimitDataset(TimitDataset):
    """
    The sample of TIMIT that NLTK has: 16 speakers with 10 sentences each. Each fourth speaker is for the test.
    """

    fixed_options = ("timit_dir",)

    def __init__(self, nltk_download_dir: str | None = None, **kwargs: Any) -> None:
        """:param nltk_download_dir: where NLTK keeps its data; by default, where it looks by itself"""
        folder = _nltk_timit_folder(nltk_download_dir)
        super().__init__(timit_dir=folder, **kwargs)

    def _find_recordings(self) -> list[tuple[str, str]]:
        recordings = _list_recordings(self._timit_dir)
        speakers = sorted({tag.rpartition("/")[0] for tag, _ in recordings})
        chosen = {name for i, name in enumerate(speakers) if (i % 4 != 3) == self._is_train}
        return [recording for recording in recordings if recording[0].rpartition("/")[0] in chosen]


def _nltk_timit_folder(nltk_download_dir: str | None) -> str:
    nltk: Any = import_optional("nltk", needed_for="NltkTimitDataset")
    if nltk_download_dir:
        nltk.data.path.insert(0, nltk_download_dir)
    try:
        return str(nltk.data.find("corpora/timit"))
    except LookupError:
        nltk.download("timit", download_dir=nltk_download_dir)
        return str(nltk.data.find("corpora/timit"))


def _list_recordings(folder: str) -> list[tuple[str, str]]:
    """:return: tag and path without ending of each recording, sorted, without the SA sentences"""
    recordings = []
    for parent, _, names in os.walk(folder):
        for name in names:
            match = re.fullmatch(r"(.+)\.wav", name, re.IGNORECASE)
            if match and not name.lower().startswith("sa"):
                path = os.path.join(parent, match.group(1))
                recordings.append((os.path.relpath(path, folder), path))
    return sorted(recordings)
