"""`BlissDataset`: recordings and texts of a Bliss corpus file."""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np

from returnn.datasets.audio.speech_dataset import SpeechDataset
from returnn.datasets.core.dataset_seq import Array
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.bliss import BlissSegment, iter_bliss
from returnn.datasets.util.vocabulary import BytePairEncoding, Vocabulary
from returnn.util.errors import ConfigError, UserError


class BlissDataset(SpeechDataset):
    """MFCC features of the segments, and their words as labels (or parts of words, with byte pair encoding)."""

    SeqInfo = BlissSegment

    def __init__(
        self,
        path: str,
        vocab_file: str,
        bpe_file: str | None = None,
        num_feature_filters: int = 40,
        feature_window_len: float = 0.025,
        feature_step_len: float = 0.010,
        with_delta: bool = False,
        norm_mean: str | Sequence[float] | None = None,
        norm_std_dev: str | Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param path: of the Bliss file, may be gzipped
        :param vocab_file: of the vocabulary
        :param bpe_file: of the codes of byte pair encoding
        :param num_feature_filters: features per frame
        :param feature_window_len: in seconds
        :param feature_step_len: from frame to frame, in seconds
        :param with_delta: whether to append the first derivative in time
        :param norm_mean: is subtracted, see `ExtractAudioFeatures`
        :param norm_std_dev: is divided by, see `ExtractAudioFeatures`
        """
        audio = {
            "num_feature_filters": num_feature_filters,
            "window_len": feature_window_len,
            "step_len": feature_step_len,
            "with_delta": with_delta,
            "norm_mean": norm_mean,
            "norm_std_dev": norm_std_dev,
        }
        targets: Vocabulary = (
            BytePairEncoding(vocab_file=vocab_file, bpe_file=bpe_file) if bpe_file else Vocabulary(vocab_file)
        )
        super().__init__(audio=audio, targets=targets, **kwargs)
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


def _as_wav(samples: Array, sample_rate: int) -> bytes:
    """:return: a wav file with 16 bits per sample"""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(np.clip(np.round(samples * 2**15), -(2**15), 2**15 - 1).astype("<i2").tobytes())
    return content.getvalue()
