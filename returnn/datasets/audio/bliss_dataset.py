"""`BlissDataset`: recordings and texts of a Bliss corpus file."""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from returnn.datasets.audio.speech_dataset import SpeechDataset
from returnn.datasets.core.dataset_seq import Array
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.bliss import BlissSegment, iter_bliss
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.datasets.util.vocabulary import BytePairEncoding, Vocabulary
from returnn.util.errors import ConfigError, UserError


class BlissDataset(SpeechDataset):
    """Features of the segments, MFCC by default, and labels of their texts: words, or parts with byte pair encoding."""

    SeqInfo = BlissSegment

    def __init__(
        self,
        path: str,
        vocab_file: str | None = None,
        bpe_file: str | None = None,
        num_feature_filters: int = 40,
        feature_window_len: float = 0.025,
        feature_step_len: float = 0.010,
        with_delta: bool = False,
        norm_mean: str | Sequence[float] | None = None,
        norm_std_dev: str | Sequence[float] | None = None,
        audio: Mapping[str, Any] | ExtractAudioFeatures | None = None,
        targets: Mapping[str, Any] | Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param path: of the Bliss file, may be gzipped
        :param vocab_file: of the vocabulary, unless there is `targets`
        :param bpe_file: of the codes of byte pair encoding
        :param num_feature_filters: features per frame
        :param feature_window_len: in seconds
        :param feature_step_len: from frame to frame, in seconds
        :param with_delta: whether to append the first derivative in time
        :param norm_mean: is subtracted, see `ExtractAudioFeatures`
        :param norm_std_dev: is divided by, see `ExtractAudioFeatures`
        :param audio: further options of `ExtractAudioFeatures`, such as `features` and `sample_rate`
        :param targets: options of `Vocabulary`, in place of `vocab_file` and `bpe_file`
        """
        options = {
            "num_feature_filters": num_feature_filters,
            "window_len": feature_window_len,
            "step_len": feature_step_len,
            "with_delta": with_delta,
            "norm_mean": norm_mean,
            "norm_std_dev": norm_std_dev,
        }
        if not isinstance(audio, ExtractAudioFeatures):
            audio = {**options, **(audio or {})}
        super().__init__(audio=audio, targets=_vocabulary(vocab_file, bpe_file, targets), **kwargs)
        self._path = path
        self._segments = list(iter_bliss(path))
        if not self._segments:
            raise ConfigError(f"{self.description}: {path} has no segments.")

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._segments)

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return self._segments[corpus_seq_idx].name

    def _text(self, corpus_seq_idx: int) -> str:
        return self._segments[corpus_seq_idx].orth

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        audio = self._segments[corpus_seq_idx].audio or ""
        return os.path.join(os.path.dirname(self._path), audio)

    def _audio_bytes(self, corpus_seq_idx: int) -> bytes:
        segment = self._segments[corpus_seq_idx]
        if not segment.audio:
            raise ConfigError(f"{self._path}: the recording of segment {segment.name!r} has no audio file.")
        path = self._corpus_file(corpus_seq_idx)
        try:
            with open(path, "rb") as file:
                samples, sample_rate = decode_audio(file.read(), name=path)
        except OSError as exc:
            raise UserError(f"cannot read the audio file {path!r}: {exc.strerror}.") from exc
        end = None if segment.end is None else round(segment.end * sample_rate)
        return _as_wav(samples[round(segment.start * sample_rate) : end], sample_rate)

    def _seq_len_func(self) -> GetSeqLen:
        return lambda corpus_seq_idx: len(self._segments[corpus_seq_idx].orth)


def _vocabulary(
    vocab_file: str | None, bpe_file: str | None, targets: Mapping[str, Any] | Vocabulary | None
) -> Mapping[str, Any] | Vocabulary:
    """:raises ConfigError: if there is not one of both"""
    if targets is not None:
        if vocab_file or bpe_file:
            raise ConfigError("BlissDataset: options 'vocab_file' and 'bpe_file' are not possible with 'targets'.")
        return targets
    if not vocab_file:
        raise ConfigError("BlissDataset: option 'vocab_file' or 'targets' is missing.")
    return BytePairEncoding(vocab_file=vocab_file, bpe_file=bpe_file) if bpe_file else Vocabulary(vocab_file)


def _as_wav(samples: Array, sample_rate: int) -> bytes:
    """:return: a wav file with 16 bits per sample"""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(np.clip(np.round(samples * 2**15), -(2**15), 2**15 - 1).astype("<i2").tobytes())
    return content.getvalue()
