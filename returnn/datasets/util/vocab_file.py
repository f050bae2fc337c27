"""
Files of labels. A vocabulary is a dict from label to index, and is stored as one of

- a Python or JSON literal: dict from label to index, or list of labels;
- text with one label per line;
- a pickle of such a dict or list, by the name ending `.pkl` or `.pickle`.

Each can be gzipped. Several labels can share an index, as `<s>` and `</s>` often do; every index up to the largest
one has to have a label.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy

from returnn.util.errors import UserError
from returnn.util.files.restricted_pickle import load_plain_pickle
from returnn.util.files.text_file import read_bytes, read_text

_BEGIN_OF_LIST = re.compile(r"""\[\s*(["'])[^\n]*\1\s*,""")


def read_vocab_file(filename: str) -> dict[str, int]:
    """
    :return: label -> index
    :raises UserError: if the file cannot be read or is no vocabulary
    """
    where = f"vocabulary {filename!r}"
    if filename.removesuffix(".gz").endswith((".pkl", ".pickle")):
        content = load_plain_pickle(read_bytes(filename), where=where)
    else:
        content = _parse_text(read_text(filename), where)
    vocab = _to_dict(content, where)
    check_vocab(vocab, where=where)
    return vocab


def vocab_from_labels(labels: Iterable[str], *, where: str) -> dict[str, int]:
    """
    :return: label -> index
    :raises UserError: if a label occurs twice
    """
    vocab: dict[str, int] = {}
    for i, label in enumerate(labels):
        if label in vocab:
            raise UserError(f"{where}: label {label!r} occurs twice, as index {vocab[label]} and {i}.")
        vocab[label] = i
    return vocab


def check_vocab(vocab: Mapping[str, int], *, where: str) -> None:
    """:raises UserError: if the indices are not 0 to n - 1"""
    if not vocab:
        raise UserError(f"{where}: it is empty.")
    indices = set(vocab.values())
    if min(indices) < 0:
        raise UserError(f"{where}: label {min(vocab, key=vocab.__getitem__)!r} has the negative index {min(indices)}.")
    if len(indices) <= max(indices):
        missing = next(i for i in range(max(indices)) if i not in indices)
        raise UserError(f"{where}: no label has the index {missing}, but the largest index is {max(indices)}.")


def labels_by_index(vocab: Mapping[str, int]) -> list[str]:
    """:return: one label for each index. Of several with the same index, it is the last one by name"""
    by_index = {index: label for label, index in sorted(vocab.items())}
    return [by_index[i] for i in range(len(by_index))]


def read_literal_file(filename: str) -> Any:
    """
    :return: of a Python literal or JSON
    :raises UserError: if the file cannot be read or is neither of them
    """
    return _parse_literal(read_text(filename), f"file {filename!r}")


def _parse_text(text: str, where: str) -> Any:
    stripped = text.strip()
    if stripped.startswith("{"):
        return _parse_literal(text, where)
    if stripped.startswith("[") and stripped.endswith("]"):  # lines can start so as well: "[BLANK]"
        try:
            return _parse_literal(text, where)
        except UserError:
            pass
    if _BEGIN_OF_LIST.match(stripped):
        raise UserError(f"{where}: it begins as a list of labels, but is none. Was it written to its end?")
    return _parse_lines(text, where)


def _parse_lines(text: str, where: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    if "" in lines:
        raise UserError(f"{where}: line {lines.index('') + 1} is empty, expected one label per line.")
    return lines


def _parse_literal(text: str, where: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError) as exc:
        try:
            return json.loads(text)  # knows `null` and `true`, and "\\/"
        except ValueError:
            line_nr = getattr(exc, "lineno", None)
            at = f", line {line_nr}" if line_nr else ""
            raise UserError(f"{where}{at}: it is no Python or JSON literal: {exc.args[0]}.") from exc


def _to_dict(content: Any, where: str) -> dict[str, int]:
    if isinstance(content, list | tuple):
        labels = [_check_label(label, where) for label in content]
        return vocab_from_labels(labels, where=where)
    if not isinstance(content, dict):
        raise UserError(f"{where}: expected a dict or list of labels, got {type(content).__name__}.")
    for label, index in content.items():
        _check_label(label, where)
        if not isinstance(index, int | numpy.integer):
            raise UserError(f"{where}: label {label!r} has the index {index!r}, which is no integer.")
    return {label: int(index) for label, index in content.items()}


def _check_label(label: Any, where: str) -> str:
    if not isinstance(label, str):
        raise UserError(f"{where}: label {label!r} is of type {type(label).__name__}, expected str.")
    return label
