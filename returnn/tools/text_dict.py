"""Files with a Python dict from tag to text, such as the task `search` writes them; compressed if the name says so."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from typing import Any

from returnn.util.errors import UserError
from returnn.util.files.atomic_file import open_atomic
from returnn.util.files.literal import literal_eval
from returnn.util.files.text_file import read_text


def read_text_dict(filename: str) -> dict[str, str]:
    """
    :param filename: of a dict from tag to text, or to a list of (score, text), of which the best one is taken
    :raises UserError: if it is something else
    """
    try:
        content = literal_eval(read_text(filename))
    except (ValueError, SyntaxError) as exc:
        raise UserError(f"file {filename!r}: is no Python dict: {exc}.") from exc
    if not isinstance(content, dict):
        raise UserError(f"file {filename!r}: expected a dict from tag to text, got a {type(content).__name__}.")
    return {str(tag): _best_text(value, tag=str(tag), filename=filename) for tag, value in content.items()}


def write_text_dict(filename: str, items: Iterable[tuple[str, str]]) -> int:
    """
    :param filename: ".gz" at the end compresses it
    :param items: tags and texts
    :return: number of items
    """
    num = 0
    with open_atomic(filename, "wb") as file:
        stream: Any = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if filename.endswith(".gz") else file
        stream.write(b"{\n")
        for tag, text in items:
            stream.write(f"{tag!r}: {text!r},\n".encode())
            num += 1
        stream.write(b"}\n")
        if stream is not file:
            stream.close()
    return num


def _best_text(value: Any, *, tag: str, filename: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(entry, tuple) and len(entry) == 2 for entry in value):
        return str(max(value, key=lambda entry: entry[0])[1])
    raise UserError(f"file {filename!r}: {tag!r}: expected a text, or a list of (score, text), got {value!r}.")
