"""A file for HDF5 to write to. The library crashes when it cannot write, so it is not told."""

from __future__ import annotations

import io
from typing import Any

from returnn.util.errors import UserError


class ForgivingFile(io.FileIO):
    """Keeps the first error, and takes everything from then on. What is in it is worth nothing then."""

    def __init__(self, path: str | int, mode: str, *, name: str) -> None:
        """
        :param path: of the file, or a descriptor
        :param mode: of `open`
        :param name: for errors, what the file will be called
        """
        super().__init__(path, mode)
        self._shown_name = name
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        num_bytes = len(rest)
        try:
            while rest:  # a part of it, before there is an error
                rest = rest[super().write(rest) :]
        except OSError as exc:
            self._error = self._error or exc
        return num_bytes

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as exc:
            self._error = self._error or exc
            return size or 0

    def check(self) -> None:
        """:raises UserError: if something could not be written"""
        if self._error is not None:
            raise UserError(
                f"HDF file {self._shown_name!r} cannot be written: {self._error.strerror}.\n"
                "  Is the disk full? Nothing is there under this name, or what was there before."
            ) from self._error
