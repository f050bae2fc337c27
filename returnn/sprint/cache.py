"""Documented path: hands on the archives of RASR."""

from __future__ import annotations

from returnn.datasets.util.allophone_labeling import AllophoneLabeling
from returnn.datasets.util.rasr_archive import (
    FileArchive,
    FileArchiveBundle,
    FileInfo,
    is_sprint_cache_file,
    open_file_archive,
)

__all__ = [
    "AllophoneLabeling",
    "FileArchive",
    "FileArchiveBundle",
    "FileInfo",
    "is_sprint_cache_file",
    "open_file_archive",
]
