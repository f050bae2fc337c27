"""
A text corpus with access to any of its lines, in 20 bytes of memory per line.

The text stays on disk: in its file, or if that is compressed or XML, in a temporary file. What is kept are the
positions of the lines.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy
import numpy.typing

from returnn.datasets.util.bliss import is_bliss_file, iter_bliss
from returnn.util.errors import UserError
from returnn.util.text_file import decode_line, iter_byte_lines, open_maybe_gzip


class TextCorpus:
    """The lines of some files, plain or gzipped text or Bliss XML."""

    def __init__(self, filenames: Sequence[str], *, skip_empty_lines: bool = True):
        """
        :param filenames: their lines come after each other
        :param skip_empty_lines: also those with white space alone
        :raises UserError: if a file cannot be read, or there is no line at all
        """
        self._starts = array("q")  # byte positions in the file
        self._lens = array("q")  # in bytes, without the line end
        self._line_nrs = array("i")  # from 1
        self._parts: list[_Part] = []
        for filename in filenames:
            self._add_file(filename, skip_empty_lines)
        if not self._starts:
            names = ", ".join(map(repr, filenames))
            raise UserError(f"There is no text in {names or 'an empty list of files'}.")

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, i: int) -> str:
        """:raises UserError: if the line is not UTF-8"""
        part = self._part(i)
        line = os.pread(part.file.fileno(), self._lens[i], self._starts[i])
        if len(line) != self._lens[i]:
            raise UserError(f"The file {part.filename!r} has changed: it ends before line {self._line_nrs[i]}.")
        return decode_line(line, part.filename, self._line_nrs[i])

    def place(self, i: int) -> str:
        """:return: for errors, file and line"""
        return f"{self._part(i).filename}, line {self._line_nrs[i]}"

    def line_lens(self) -> numpy.typing.NDArray[numpy.int64]:
        """:return: (lines,), in bytes. A view: do not write"""
        return numpy.frombuffer(self._lens, dtype="int64")

    def _part(self, i: int) -> _Part:
        return next(part for part in reversed(self._parts) if part.first <= i)

    def _add_file(self, filename: str, skip_empty_lines: bool) -> None:
        is_plain = not filename.endswith(".gz") and not is_bliss_file(filename)
        file = open_maybe_gzip(filename) if is_plain else cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - open as long as the corpus
        part = _Part(filename, file, first=len(self))
        self._parts.append(part)
        position = 0
        for line_nr, line in enumerate(file if is_plain else _iter_lines_with_end(filename), start=1):
            if not is_plain:
                file.write(line)
            if not (skip_empty_lines and line.isspace()):
                self._starts.append(position)
                self._lens.append(len(line) - line.endswith(b"\n"))
                self._line_nrs.append(line_nr)
            position += len(line)
        file.flush()


class _Part:
    def __init__(self, filename: str, file: BinaryIO, first: int):
        self.filename = filename
        self.file = file
        self.first = first  # index of its first line

    def __del__(self) -> None:
        self.file.close()


def iter_text(filename: str) -> Iterator[bytes]:
    """
    :return: lines without their ends; of Bliss XML, the orthography of each segment
    :raises UserError: if the file cannot be read
    """
    for line in _iter_lines_with_end(filename):
        yield line.removesuffix(b"\n")


def _iter_lines_with_end(filename: str) -> Iterator[bytes]:
    if is_bliss_file(filename):
        return (segment.orth.encode("utf-8") + b"\n" for segment in iter_bliss(filename))
    return iter_byte_lines(filename)


def as_list(value: Any) -> list[str]:
    """:return: of a file name, a list of them, or a function that returns such"""
    value = value() if callable(value) else value
    return [value] if isinstance(value, str) else list(value)
