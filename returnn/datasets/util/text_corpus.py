"""
A text corpus with access to any of its lines, in 20 bytes of memory per line.

The text stays on disk: in its file, or if that is compressed or XML, in a temporary file. What is kept are the
positions of the lines.
"""

from __future__ import annotations

import codecs
import itertools
import os
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

import numpy
import numpy.typing

from returnn.datasets.util.bliss import is_bliss_file, iter_bliss
from returnn.util.errors import UserError
from returnn.util.files.text_file import decode_line, iter_byte_lines, open_maybe_gzip


class TextCorpus:
    """The lines of some files, plain or gzipped text or Bliss XML."""

    def __init__(self, filenames: Sequence[str], *, skip_empty_lines: bool = True, max_lines: int | None = None):
        """
        :param filenames: their lines come after each other
        :param skip_empty_lines: also those with white space alone
        :param max_lines: only so many lines of each file are read
        :raises UserError: if a file cannot be read, or there is no line at all
        """
        self._starts = array("q")  # byte positions in the file
        self._lens = array("q")  # in bytes, without the line end
        self._line_nrs = array("i")  # from 1
        self._parts: list[_Part] = []
        self._max_lines = max_lines
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
        line = os.pread(part.fd, self._lens[i], self._starts[i])
        if len(line) != self._lens[i]:
            raise UserError(f"The file {part.filename!r} has changed: it ends before line {self._line_nrs[i]}.")
        return decode_line(line, part.filename, self._line_nrs[i])

    def place(self, i: int) -> str:
        """:return: for errors, file and line"""
        return f"{self._part(i).filename}, line {self._line_nrs[i]}"

    @property
    def open_files(self) -> list[str]:
        """Names of the files that are read from when a line is asked for."""
        return [part.filename for part in self._parts if not part.is_copy]

    def line_lens(self) -> numpy.typing.NDArray[numpy.int64]:
        """:return: (lines,), in bytes. A view: do not write"""
        return numpy.frombuffer(self._lens, dtype="int64")

    def line_numbers(self) -> numpy.typing.NDArray[numpy.int32]:
        """:return: (lines,), in their files, from 1. A view: do not write"""
        return numpy.frombuffer(self._line_nrs, dtype="int32")

    def _part(self, i: int) -> _Part:
        return next(part for part in reversed(self._parts) if part.first <= i)

    def _add_file(self, filename: str, skip_empty_lines: bool) -> None:
        if not filename.endswith(".gz") and not is_bliss_file(filename):
            with open_maybe_gzip(filename) as file:
                self._add_part(_Part(filename, file, first=len(self)), file, file, skip_empty_lines)
        else:
            with tempfile.TemporaryFile() as copy:
                part = _Part(filename, copy, first=len(self), is_copy=True)
                self._add_part(part, copy, _copied(_iter_lines_with_end(filename), copy), skip_empty_lines)

    def _add_part(self, part: _Part, file: IO[bytes], lines: Iterable[bytes], skip_empty_lines: bool) -> None:
        self._parts.append(part)
        position = 0
        for line_nr, line in enumerate(itertools.islice(lines, self._max_lines), start=1):
            if not (skip_empty_lines and _is_empty(line, line_nr)):
                self._starts.append(position)
                self._lens.append(len(line) - line.endswith(b"\n"))
                self._line_nrs.append(line_nr)
            position += len(line)
        file.flush()


class _Part:
    """The lines of one file. It stays open as long as this object is there."""

    def __init__(self, filename: str, file: IO[bytes], *, first: int, is_copy: bool = False):
        self.filename = filename
        self.is_copy = is_copy  # what is open is not the file itself
        self.first = first  # index of its first line
        self.fd = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.fd)


def _is_empty(line: bytes, line_nr: int) -> bool:
    """:return: whether there is only white space, or what marks the begin of a file"""
    return not (line.removeprefix(codecs.BOM_UTF8) if line_nr == 1 else line).strip()


def _copied(lines: Iterable[bytes], copy: IO[bytes]) -> Iterator[bytes]:
    for line in lines:
        copy.write(line)
        yield line


def iter_corpus(
    filename: str, callback: Callable[[Any], None], *, skip_empty_lines: bool = True, decode: bool = True
) -> None:
    """
    :param filename: text or Bliss XML, can be gzipped
    :param callback: called with each line, without its end
    :param skip_empty_lines: also those of white space alone
    :param decode: the lines are `str`, otherwise `bytes`
    :raises UserError: if the file cannot be read, or is not UTF-8
    """
    for line_nr, line in enumerate(_iter_lines_with_end(filename), start=1):
        if skip_empty_lines and _is_empty(line, line_nr):
            continue
        callback(decode_line(line, filename, line_nr) if decode else line.removesuffix(b"\n").removesuffix(b"\r"))


def read_corpus(
    filename: str, *, skip_empty_lines: bool = True, decode: bool = True, out_list: list[Any] | None = None
) -> list[Any]:
    """
    :param filename: as in `iter_corpus`
    :param skip_empty_lines: as in `iter_corpus`
    :param decode: as in `iter_corpus`
    :param out_list: the lines are added to this one
    :return: lines
    """
    lines: list[Any] = [] if out_list is None else out_list
    iter_corpus(filename, lines.append, skip_empty_lines=skip_empty_lines, decode=decode)
    return lines


def _iter_lines_with_end(filename: str) -> Iterator[bytes]:
    if is_bliss_file(filename):
        return (segment.orth.encode("utf-8") + b"\n" for segment in iter_bliss(filename))
    return iter_byte_lines(filename)


def as_list(value: Any) -> list[str]:
    """:return: of a file name, a list of them, or a function that returns such"""
    value = value() if callable(value) else value
    return [value] if isinstance(value, str) else list(value)
