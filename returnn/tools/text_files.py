"""Files with hypotheses and references, to be compared."""

from __future__ import annotations

from collections.abc import Mapping

from returnn.engine.hypothesis_files import best_hypothesis, read_hypotheses, words_of
from returnn.util.errors import UserError
from returnn.util.files.text_file import read_text
from returnn.util.texts.counted import counted
from returnn.util.texts.text_scores import without_end

Texts = dict[str, str]


def read_pair(hyps: str, refs: str | Mapping[str, str], *, end: str | None = None) -> tuple[Texts, Texts]:
    """
    :param hyps: file of a search, with tags (formats "py", "py-words", "json"), or lines of text
    :param refs: file like that, or texts by tag
    :param end: label at the end of sequences, which is left out
    :return: both by tag. Lines of text belong to the lines of the other file, or to the sequences in their order.
        Subwords are put together
    :raises UserError: if there is another number of lines
    """
    given = dict(refs) if isinstance(refs, Mapping) else None
    wanted = given if given is not None else _with_tags(str(refs))
    found = _with_tags(hyps)
    if found is None:
        lines = _lines(hyps)
        names = list(wanted) if wanted is not None else [f"line {i + 1}" for i in range(len(lines))]
        found = _by_line(lines, names, hyps)
    if wanted is None:
        wanted = _by_line(_lines(str(refs)), list(found), str(refs))
    found, wanted = (without_end(texts, end) for texts in (found, wanted))
    return tuple({tag: words_of(text) for tag, text in texts.items()} for texts in (found, wanted))  # type: ignore[return-value]


def _with_tags(filename: str) -> Texts | None:
    """:return: None if it has lines of text"""
    if not read_text(filename).startswith("{"):
        return None
    return {str(tag): best_hypothesis(hyps) for tag, hyps in read_hypotheses(filename).items()}


def _lines(filename: str) -> list[str]:
    return read_text(filename).splitlines()


def _by_line(lines: list[str], names: list[str], filename: str) -> Texts:
    if len(lines) != len(names):
        raise UserError(
            f"{filename!r} has {counted(len(lines), 'line')}, but {counted(len(names), 'sequence')} are to be compared."
        )
    return dict(zip(names, lines, strict=True))
