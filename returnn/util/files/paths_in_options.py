"""Files and folders that options name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy

_NO_PATHS = ("class", "name")
_BUNDLE_ENDING = ".bundle"  # such a file has the path of another file in each line


def find_paths(options: Any) -> list[str]:
    """
    :param options: nested in any way: dicts, lists, text
    :return: what is the path of an existing file or folder, each once, in the order of the options. To be one, a text
        has a slash or a dot: "train" is as a rule the name of something else. Sequences name no files.
    """
    return list(dict.fromkeys(_iter_paths(options)))


def are_sequences(value: Any) -> bool:
    """
    :param value: some option
    :return: whether it is the data itself, which can be long, and names no files: a list or tuple of dicts with
        arrays, as `StaticDataset` takes it. The first one says so
    """
    first = value[0] if isinstance(value, list | tuple) and value else None
    return isinstance(first, Mapping) and any(isinstance(entry, numpy.ndarray) for entry in first.values())


def _iter_paths(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if key not in _NO_PATHS:
                yield from _iter_paths(entry)
    elif are_sequences(value):
        return
    elif isinstance(value, list | tuple | set | frozenset):
        entries = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        for entry in entries:
            yield from _iter_paths(entry)
    elif isinstance(value, str | os.PathLike):
        yield from _paths_of_text(os.fspath(value))


def _paths_of_text(text: Any) -> Iterator[str]:
    if not isinstance(text, str) or not any(char in text for char in "/.") or "\n" in text or "\0" in text:
        return
    if os.path.isfile(text):
        yield text
        if text.endswith(_BUNDLE_ENDING):
            with open(text, encoding="utf8", errors="replace") as file:
                yield from (path for path in map(str.strip, file) if os.path.isfile(path))
    elif os.path.isdir(text):
        yield text
