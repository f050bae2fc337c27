"""Recordings with their texts. `OggZipDataset` is documented to be here; the others are handed on by `generating`."""

from __future__ import annotations

from returnn.datasets.audio.ogg_zip import OggZipDataset

__all__ = ["OggZipDataset"]
