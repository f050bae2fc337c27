"""Features of audio, and their augmentation."""

from returnn.frontend.audio.mel import log_mel_filterbank_from_raw, mel_filterbank
from returnn.frontend.audio.specaugment import mask, random_mask, specaugment

__all__ = ["log_mel_filterbank_from_raw", "mask", "mel_filterbank", "random_mask", "specaugment"]
