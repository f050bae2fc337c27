"""Text files, plain or gzipped, always UTF-8. What is wrong with one is said with its name and line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import cast

from returnn.util.errors import UserError
from returnn.util.files.file_kind import kind_of_binary, known_kind
from returnn.util.files.near_files import hint_for_missing_file


def open_maybe_gzip(filename: str) -> BufferedReader:
    """
    :return: file for bytes; decompresses what has the name ending `.gz`
    :raises UserError: if there is no such file, or it cannot be opened
    """
    try:
        return cast(BufferedReader, gzip.open(filename, "rb")) if filename.endswith(".gz") else open(filename, "rb")
    except OSError as exc:
        near = hint_for_missing_file(filename) if isinstance(exc, FileNotFoundError) else ""
        raise UserError(f"Cannot open the file {filename!r}: {exc.strerror or exc}.{near}") from exc


def read_bytes(filename: str) -> bytes:
    """
    :return: the whole content, decompressed
    :raises UserError: if the file cannot be read
    """
    with open_maybe_gzip(filename) as file:
        try:
            return file.read()
        except (OSError, EOFError, zlib.error) as exc:
            raise broken_file_error(filename, exc) from exc


def read_text(filename: str) -> str:
    """
    :return: the whole content
    :raises UserError: if the file cannot be read, or is not UTF-8
    """
    content = read_bytes(filename)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line_nr = content.count(b"\n", 0, exc.start) + 1
        raise not_utf8_error(filename, line_nr, exc) from exc


def iter_lines(filename: str) -> Iterator[str]:
    """
    Goes through a file that may be large, without the line ends.

    Only `\\n` and `\\r\\n` end a line: text from the web has other line separators inside of sentences.

    :raises UserError: if the file cannot be read, or is not UTF-8
    """
    for line_nr, line in enumerate(iter_byte_lines(filename), start=1):
        yield decode_line(line, filename, line_nr)


def iter_byte_lines(filename: str) -> Iterator[bytes]:
    """
    Goes through a file that may be large, with the line ends.

    :raises UserError: if the file cannot be read
    """
    with open_maybe_gzip(filename) as file:
        try:
            yield from file
        except (OSError, EOFError, zlib.error) as exc:
            raise broken_file_error(filename, exc) from exc


def decode_line(line: bytes, filename: str, line_nr: int) -> str:
    """
    :param line: with or without its end
    :param line_nr: from 1 on
    :raises UserError: if it is not UTF-8, or has a NUL, which would become part of a word
    """
    if b"\0" in line:
        raise _nul_error(filename, line_nr, line)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise not_utf8_error(filename, line_nr, exc) from exc
    text = text.removesuffix("\n").removesuffix("\r")
    return text.removeprefix("\ufeff") if line_nr == 1 else text


def _nul_error(filename: str, line_nr: int, line: bytes) -> UserError:
    if kind := known_kind(_head(filename)):
        return _no_text_error(filename, kind)
    place = line.index(b"\0")
    near = line[max(place - 20, 0) : place + 20]
    is_utf_16 = line.count(b"\0") >= len(line) // 2
    hint = (
        "It looks like UTF-16. Convert it: `iconv -f utf-16le -t utf-8`"
        if is_utf_16
        else "Without them: `tr -d '\\000' < FILE`"
    )
    return UserError(f"File {filename!r}, line {line_nr}: has a NUL character in {near!r}, as no text has.\n  {hint}.")


def broken_file_error(filename: str, exc: Exception) -> UserError:
    """:return: for a file that could be opened, and not be read to its end"""
    return UserError(f"Cannot read the file {filename!r}, it is broken or not complete: {exc}")


def not_utf8_error(filename: str, line_nr: int, exc: UnicodeDecodeError) -> UserError:
    """:return: says what kind of file it is, or else where the first wrong byte is"""
    if kind := kind_of_binary(_head(filename)):
        return _no_text_error(filename, kind)
    near = bytes(exc.object[max(exc.start - 20, 0) : exc.start + 20])
    return UserError(
        f"File {filename!r}, line {line_nr}: not UTF-8, byte 0x{exc.object[exc.start]:02x} in {near!r}.\n"
        f"  If it has another encoding, convert it, e.g. `iconv -f latin1 -t utf-8`."
    )


def _head(filename: str) -> bytes:
    with open_maybe_gzip(filename) as file:
        return file.read(1024)


def _no_text_error(filename: str, kind: str) -> UserError:
    return UserError(f"File {filename!r} is no text, but {kind}.")
