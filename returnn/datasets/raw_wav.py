"""`RawWavDataset`: frames of samples from audio files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.data_dims import convert_data_dims
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.signal import frames
from returnn.util.errors import ConfigError, UserError
from returnn.util.files.text_file import iter_lines, read_bytes


class RawWavDataset(CorpusDataset):
    """Each frame of "data" are `frameLength` samples. The tag of a sequence is its file."""

    def __init__(
        self,
        listFile: str,
        frameLength: int,
        frameShift: int,
        num_outputs: int | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        """
        :param listFile: lists audio files, one per line
        :param frameLength: in samples
        :param frameShift: from frame to frame, in samples
        :param num_outputs: dims of further keys that the net has, and that the data has not
        """
        super().__init__(**kwargs)
        if min(frameLength, frameShift) < 1:
            raise ConfigError(
                f"{self.description}: options 'frameLength' and 'frameShift' have to be positive, "
                f"got {frameLength} and {frameShift}."
            )
        self._list_file = listFile
        self._frame_length = frameLength
        self._frame_shift = frameShift
        self._filenames = [line.strip() for line in iter_lines(listFile) if line.strip()]
        if not self._filenames:
            raise UserError(f"{self.description}: option 'listFile': there are no files in {listFile!r}.")
        self.num_inputs = frameLength
        self.num_outputs = convert_data_dims(num_outputs) if num_outputs is not None else {}
        self.num_outputs[DEFAULT_KEY] = (frameLength, 2)

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._filenames)

    def get_data_keys(self) -> list[str]:
        return [DEFAULT_KEY]

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return self._filenames[corpus_seq_idx]

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        return f"{self._filenames[corpus_seq_idx]} in {self._list_file}"

    def _read_corpus_seq(self, corpus_seq_idx: int) -> dict[str, Array]:
        filename = self._filenames[corpus_seq_idx]
        audio, _ = decode_audio(read_bytes(filename), name=filename)
        if audio.ndim > 1:
            raise UserError(f"the audio has {audio.shape[1]} channels, expected 1")
        return {DEFAULT_KEY: frames(audio, frame_len=self._frame_length, step=self._frame_shift, center=False)}
