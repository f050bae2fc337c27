"""Files with hypotheses and references, to be compared."""

from __future__ import annotations

from collections.abc import Mapping

from returnn.engine.hypothesis_files import best_hypothesis, read_hypotheses, words_of_texts
from returnn.util.errors import UserError
from returnn.util.files.text_file import read_text
from returnn.util.texts.counted import counted
from returnn.util.texts.text_scores import without_end
from returnn.util.texts.word_errors import word_errors

Texts = dict[str, str]

_FEWEST_TO_COMPARE, _MOST_TO_COMPARE = 10, 200  # sequences
_SAME = 0.98  # of the number of errors


def read_pair(
    hyps: str, refs: str | Mapping[str, str], *, end: str | None = None, tagged: bool = False
) -> tuple[Texts, Texts]:
    """
    :param hyps: file of a search, with tags (formats "py", "py-words", "json"), or lines of text
    :param refs: file like that, or texts by tag
    :param end: label at the end of sequences, which is left out
    :param tagged: lines of text begin with the tag of the sequence; in the hypotheses only if these are the same tags
    :return: both by tag. Lines of text belong to the lines of the other file, or to the sequences in their order.
        Subwords are put together
    :raises UserError: if there is another number of lines
    """
    given = dict(refs) if isinstance(refs, Mapping) else None
    wanted = given if given is not None else _with_tags(str(refs), tagged=tagged)
    found = _with_tags(hyps, tagged=tagged)
    if tagged and found is not None and wanted is not None and not {*found} & {*wanted}:
        found = _with_tags(hyps)
    if found is None:
        lines = _lines(hyps)
        names = list(wanted) if wanted is not None else [f"line {i + 1}" for i in range(len(lines))]
        found = _by_line(lines, names, hyps, other="references" if given is not None else str(refs))
    if wanted is None:
        wanted = _by_line(_lines(str(refs)), list(found), str(refs), other=hyps)
    found, wanted = (without_end(texts, end) for texts in (found, wanted))
    return words_of_texts(found), words_of_texts(wanted)


def hint_of_tags(hyps: Mapping[str, str], refs: Mapping[str, str]) -> str | None:
    """
    :param hyps: texts, as they are compared
    :param refs: the same with references
    :return: what to do if the lines of one of them seem to begin with the tags of the sequences; None if they do not
    """
    if all(_begin_with_tags(texts, {}) for texts in (hyps, refs)) and {*_first_words(hyps)} == {*_first_words(refs)}:
        what = "hypotheses and references"
    elif _begin_with_tags(refs, hyps):
        what = "references"
    elif _begin_with_tags(hyps, refs):
        what = "hypotheses"
    else:
        return None
    example = _first_words(hyps if what == "hypotheses" else refs)[0]
    return (
        f"each line of the {what} begins with another word, such as {example!r}.\n"
        "  If these are the tags of the sequences, say it by '--tagged', as they count as words here."
    )


def hint_of_other_data(hyps: Mapping[str, str], refs: Mapping[str, str]) -> str | None:
    """
    :param hyps: texts, as they are compared
    :param refs: the same with references
    :return: what may be wrong if the hypotheses fit to the references of others as well; None if they do not
    """
    tags = [tag for tag in hyps if tag in refs][:_MOST_TO_COMPARE]
    own, *of_others = (
        sum(
            word_errors(hyps[tag].split(), refs[other].split()).num_errors
            for tag, other in zip(tags, others, strict=True)
        )
        for others in ([*tags[i:], *tags[:i]] for i in range(4))
    )
    if len(tags) < _FEWEST_TO_COMPARE or own < _SAME * min(of_others) or not own:
        return None
    return (
        "the hypotheses fit to their references no better than to those of the next sequences.\n"
        "  Are both of the same data, in the same order? Otherwise, the model has learned nothing of its input."
    )


def _with_tags(filename: str, *, tagged: bool = False) -> Texts | None:
    """:return: None if it has lines of text, without tags"""
    if not read_text(filename).startswith("{") and not tagged:
        return None
    return {str(tag): best_hypothesis(hyps) for tag, hyps in read_hypotheses(filename).items()}


def _lines(filename: str) -> list[str]:
    return read_text(filename).splitlines()


def _by_line(lines: list[str], names: list[str], filename: str, *, other: str) -> Texts:
    if len(lines) != len(names):
        what = "There are" if other == "references" else f"{other!r} has"
        number = counted(len(names), "reference" if other == "references" else "sequence")
        raise UserError(
            f"{filename!r} has {counted(len(lines), 'line')}, and a line is a sequence. {what} {number}.\n"
            "  Are both of the same data? A hypothesis without words is an empty line."
        )
    return dict(zip(names, lines, strict=True))


def _first_words(texts: Mapping[str, str]) -> list[str]:
    return [text.split(maxsplit=1)[0] if text.strip() else "" for text in texts.values()]


def _begin_with_tags(texts: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """:return: whether the first words are as tags are: each another one, with a digit, and in no other text"""
    first = _first_words(texts)
    words = {word for text in others.values() for word in text.split()}
    with_digit = all(any(char.isdigit() for char in word) for word in first)
    return len(first) > 1 and with_digit and len({*first}) == len(first) and not {*first} & words
