"""Files with n-best lists: a Python dict from tag to a list of (score, text), as the task `search` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from returnn.util.errors import UserError
from returnn.util.files.literal import literal_eval
from returnn.util.files.text_file import read_text
from returnn.util.texts.word_errors import word_errors

NBest = Sequence[tuple[float, str]]


def read_n_best(filename: str) -> dict[str, NBest]:
    """
    :param filename: of the dict; ".gz" at the end: it is compressed
    :raises UserError: if it is something else
    """
    try:
        content = literal_eval(read_text(filename))
    except (ValueError, SyntaxError) as exc:
        raise UserError(f"file {filename!r}: is no Python dict: {exc}.") from exc
    if not isinstance(content, dict) or not content:
        raise UserError(f"file {filename!r}: expected a dict from tag to a list of (score, text).")
    for tag, hyps in content.items():
        if not isinstance(hyps, list) or not hyps or not all(map(_is_pair, hyps)):
            raise UserError(f"file {filename!r}: {tag!r}: expected a list of (score, text), got {str(hyps)[:80]}.")
    return {str(tag): hyps for tag, hyps in content.items()}


def check_same_hyps(filename: str, lists: Mapping[str, NBest], first: str, wanted: Mapping[str, NBest]) -> None:
    """:raises UserError: if two files are not about the same hypotheses, in the same order"""
    for tag in sorted({*lists, *wanted}):
        if tag not in lists or tag not in wanted:
            raise UserError(
                f"file {filename if tag not in lists else first!r}: the sequence {tag!r} is missing, "
                f"which {first if tag not in lists else filename!r} has."
            )
        texts, others = ([text for _, text in content[tag]] for content in (lists, wanted))
        if texts != others:
            raise UserError(f"files {first!r} and {filename!r}: {tag!r} has other hypotheses.")


def count_errors(hyps: Mapping[str, NBest], references: Mapping[str, str]) -> dict[str, list[float]]:
    """
    :param hyps: by tag
    :param references: text by tag
    :return: number of wrong words of each hypothesis
    :raises UserError: if there is no reference
    """
    missing = next((tag for tag in hyps if tag not in references), None)
    if missing is not None:
        raise UserError(f"option '--ref': there is no reference for the sequence {missing!r}.")
    return {
        tag: [float(word_errors(text.split(), references[tag].split()).num_errors) for _, text in pairs]
        for tag, pairs in hyps.items()
    }


def _is_pair(entry: Any) -> bool:
    is_pair = isinstance(entry, (tuple, list)) and len(entry) == 2
    return is_pair and isinstance(entry[0], (int, float)) and isinstance(entry[1], str)
