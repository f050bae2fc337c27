"""Files that users write by hand or by script: lists of sequence tags, and tables from tags to lengths."""

from __future__ import annotations

import ast
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from returnn.datasets.core.errors import DataError
from returnn.util.files.restricted_pickle import PickleDataError, load_plain_pickle


def load_python_data(filename: str, *, where: str) -> Any:
    """
    :param filename: a pickle (`.pkl`), or text with a Python literal or one entry per line; may end with `.gz`
    :param where: for errors, the data set
    :return: what a pickle or literal holds, or the list of lines without empty ones
    """
    content = _read_bytes(filename, where=where)
    if filename.removesuffix(".gz").endswith(".pkl"):
        try:
            return load_plain_pickle(content, where=f"{where}: {filename}")
        except PickleDataError as exc:
            raise DataError(str(exc).partition(": it ")[2].rstrip("."), dataset=where, file=filename) from exc
    try:
        text = content.decode("utf8")
    except UnicodeDecodeError as exc:
        raise DataError(f"byte {exc.start} is not UTF-8", dataset=where, file=filename) from exc
    if text.lstrip()[:1] in ("[", "{", "("):
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError) as exc:
            raise DataError(f"not a Python literal ({exc})", dataset=where, file=filename) from exc
    return [line for line in map(str.strip, text.splitlines()) if line]


def load_seq_list(filename: str, *, where: str) -> list[str]:
    """:return: the sequence tags of a file, in its order. Of a dict that has them by data set: those of the first."""
    content = load_python_data(filename, where=where)
    if isinstance(content, Mapping) and content and isinstance(next(iter(content.values())), list | tuple):
        content = next(iter(content.values()))
    tags = [str(tag) for tag in content]
    if not tags:
        raise DataError("the list of sequence tags is empty", dataset=where, file=filename)
    return tags


def load_seq_lens(filename: str, *, option: str, where: str) -> dict[str, int]:
    """
    :param filename: see `load_python_data`
    :param option: that names the file
    :param where: for errors, the data set
    :return: length of each sequence tag
    """
    where = f"{where}: option {option!r}"
    content = load_python_data(filename, where=where)
    if not isinstance(content, Mapping):
        raise DataError(
            f"expected a dict from sequence tag to length, found a {type(content).__name__}",
            dataset=where,
            file=filename,
        )
    lens = {}
    for tag, length in content.items():
        try:
            lens[str(tag)] = int(length)
        except (TypeError, ValueError) as exc:
            is_by_key = isinstance(length, Mapping)
            raise DataError(
                f"expected a length, found {'a dict' if is_by_key else repr(length)}",
                dataset=where,
                seq=str(tag),
                file=filename,
                hint=f"Write one length, that of one of the data keys {list(length)}." if is_by_key else None,
            ) from exc
    return lens


def _read_bytes(filename: str, *, where: str) -> bytes:
    try:
        content = Path(filename).read_bytes()
        return gzip.decompress(content) if filename.endswith(".gz") else content
    except (OSError, EOFError) as exc:
        reason = getattr(exc, "strerror", None) or str(exc)
        raise DataError(f"cannot be read ({reason})", dataset=where, file=filename) from exc
