"""
Files that say which text belongs to which recording, as they come with speech corpora.

- `.csv`, `.tsv`: a table, whose first line names the columns: one of `FILE_COLUMNS` and one of `TEXT_COLUMNS`. What
  separates them is found in the first line. Without such a line, the first column is the file, the second one the text.
- `.json`: a dict from file to text, or a list of dicts with these keys; `.jsonl`: a dict in each line.
- other names: lines `NAME TEXT`. Empty ones are no recording.

All can be gzipped.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines, read_text

FILE_COLUMNS = ("file", "path", "audio", "wav", "name", "id", "filename", "file_name", "wav_filename", "audio_filepath")
TEXT_COLUMNS = ("text", "transcript", "transcription", "sentence", "orth", "words")
_SEPARATORS = "\t|;,"


@dataclass(frozen=True)
class Transcript:
    """What is said in a recording."""

    name: str  # of the recording, or its file
    text: str
    where: str  # for errors: file and line


def read_transcripts(filename: str) -> Iterator[Transcript]:
    """
    :return: in the order of the file
    :raises UserError: if it cannot be read, or does not have what is described above
    """
    kind = filename.lower().removesuffix(".gz").rpartition(".")[2]
    if kind in ("csv", "tsv"):
        yield from _of_table(filename)
    elif kind == "json":
        yield from _of_json(_parse_json(read_text(filename), filename), filename)
    elif kind == "jsonl":
        for line_nr, line in enumerate(iter_lines(filename), start=1):
            where = f"{filename}, line {line_nr}"
            yield _of_dict(_parse_json(line, where), where)
    else:
        for line_nr, line in enumerate(iter_lines(filename), start=1):
            name, text = [*line.split(maxsplit=1), "", ""][:2]
            if name:
                yield Transcript(name, text.strip(), f"{filename}, line {line_nr}")


def _of_table(filename: str) -> Iterator[Transcript]:
    lines = read_text(filename).splitlines()
    first = lines[0] if lines else ""
    separator = next((separator for separator in _SEPARATORS if separator in first), ",")
    cells = (_cells(line, separator, f"{filename}, line {i}") for i, line in enumerate(lines, start=1))
    rows = [(i, row) for i, row in enumerate(cells, start=1) if row]
    file_column, text_column = 0, 1
    header = [name.strip().lower() for name in rows[0][1]] if rows else []
    if {*header} & {*FILE_COLUMNS, *TEXT_COLUMNS}:
        file_column = _column(header, FILE_COLUMNS, filename)
        text_column = _column(header, TEXT_COLUMNS, filename)
        rows = rows[1:]
    for line_nr, row in rows:
        where = f"{filename}, line {line_nr}"
        if len(row) <= max(file_column, text_column):
            raise UserError(
                f"{where}: there is no column {max(file_column, text_column) + 1}: {separator.join(row)!r}."
            )
        yield Transcript(row[file_column].strip(), row[text_column].strip(), where)


def _cells(line: str, separator: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error as exc:
        if separator == "\t":  # most programs that write such tables put no quotation marks around texts
            return line.split(separator)
        raise UserError(
            f"{where}: a quotation mark has no other one in its line, or text behind that one: {line!r:.80}."
            '\n  Around a text, they are two; one within it is written as two: "a ""word"" in quotation marks".'
        ) from exc


def _column(header: Sequence[str], wanted: Sequence[str], filename: str) -> int:
    for name in wanted:
        if name in header:
            return header.index(name)
    raise UserError(
        f"{filename}: there is no column {wanted[0]!r}. There are {', '.join(map(repr, header))}."
        f"\n  Possible names of it: {', '.join(wanted)}."
    )


def _of_json(content: Any, filename: str) -> Iterator[Transcript]:
    if isinstance(content, dict) and all(isinstance(text, str) for text in content.values()):
        for name, text in content.items():
            yield Transcript(name, text.strip(), filename)
    elif isinstance(content, list):
        for i, entry in enumerate(content):
            yield _of_dict(entry, f"{filename}, entry {i}")
    else:
        raise UserError(f"{filename}: expected a dict from file to text, or a list of dicts with file and text.")


def _of_dict(entry: Any, where: str) -> Transcript:
    if not isinstance(entry, Mapping):
        raise UserError(f"{where}: expected a dict with file and text, got {entry!r:.80}.")
    header = list(entry)
    name, text = (entry[header[_column(header, wanted, where)]] for wanted in (FILE_COLUMNS, TEXT_COLUMNS))
    return Transcript(str(name), str(text).strip(), where)


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise UserError(f"{where}: it is no JSON: {exc}.") from exc
