"""Features of audio."""

from returnn.frontend.audio.mel import log_mel_filterbank_from_raw, mel_filterbank

__all__ = ["log_mel_filterbank_from_raw", "mel_filterbank"]
