"""
Scores of hypotheses by references: word and character error rate, BLEU; and how they are aligned, for people.

References of a data set are made of labels. What its vocabulary does not know is the unknown label there, which is
never right, also where hypotheses have it, too: nobody knows whether they mean the same. So in references, a character
which no hypothesis has is scored in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from returnn.util.errors import UserError, check_known
from returnn.util.texts.corpus_bleu import corpus_bleu
from returnn.util.texts.counted import counted, there_are
from returnn.util.texts.word_errors import WordErrors, align, word_errors

UNKNOWN_LABELS = ("<unk>", "<UNK>", "UNK", "[UNK]", "[UNKNOWN]", "⁇")  # as vocabularies and sentencepiece write them
_MASKS = {label: chr(0xE000 + i) for i, label in enumerate(UNKNOWN_LABELS)}  # of private use
_UNKNOWN = re.compile(  # within words, too, unless it is of letters alone, as TRUNK is a word
    "|".join(rf"(?<!\S){label}(?!\S)" if label.isalpha() else re.escape(label) for label in UNKNOWN_LABELS)
)


def check_metrics(names: Sequence[str], *, where: str) -> None:
    """:raises ConfigError: if a metric is not known"""
    for name in names:
        check_known("metric", name, METRICS, where=where)


def score_lines(
    hypotheses: Mapping[str, str],
    references: Mapping[str, str],
    metrics: Sequence[str],
    *,
    per_seq: bool = False,
    with_alignment: bool = False,
) -> Iterator[str]:
    """
    :param hypotheses: by tag
    :param references: by tag
    :param metrics: some of `METRICS`
    :param per_seq: also the scores of each sequence
    :param with_alignment: with each sequence, which word of the reference became which one
    :return: lines for people
    :raises UserError: if a hypothesis has no reference, or if there is none
    """
    unknown = next((tag for tag in hypotheses if tag not in references), None)
    if unknown is not None:
        example = f", such as for {next(iter(references))!r}. Are both of the same data?" if references else "."
        raise UserError(f"there is no reference for {unknown!r}; {there_are(len(references), 'reference')}{example}")
    if not hypotheses:
        raise UserError("there is no hypothesis.")
    masked = {tag: _masked(references[tag]) for tag in hypotheses}
    for tag, text in hypotheses.items() if per_seq or with_alignment else ():
        one = [METRICS[name]({tag: text}, masked) for name in metrics]
        yield f"{tag}: {'; '.join(one)}"
        if with_alignment:
            yield alignment_text(text.split(), references[tag].split())
    for name in metrics:
        yield METRICS[name](hypotheses, masked)
    end = _end_of_references(hypotheses, references)
    if end is not None:
        yield (
            f"Each reference ends with {end!r}, and no hypothesis, which counts as an error. If it is the end of the "
            f"sequence, say so in the vocabulary: 'eos_label': {end!r}."
        )
    yield from _of_unknown_words(hypotheses, references)
    missing = len(set(references) - set(hypotheses))
    if missing:
        yield f"{missing} of {counted(len(references), 'reference')} have no hypothesis, and do not count."


def without_end(texts: Mapping[str, str], end: str | None) -> dict[str, str]:
    """
    :param texts: by tag, as labels
    :param end: the label that ends sequences; None if there is none
    :return: the texts without it
    """
    if end is None:
        return dict(texts)
    if all(text.endswith(end) for text in texts.values()):  # also where labels are not separated, such as characters
        return {tag: text.removesuffix(end).rstrip() for tag, text in texts.items()}
    return {tag: text.removesuffix(f" {end}") if text != end else "" for tag, text in texts.items()}


def _end_of_references(hypotheses: Mapping[str, str], references: Mapping[str, str]) -> str | None:
    """:return: what each reference ends with, and no hypothesis, which may well be the label of the end"""
    last = {references[tag].split()[-1:][0] if references[tag].split() else "" for tag in hypotheses}
    found = last.pop() if len(last) == 1 and len(hypotheses) > 1 else ""
    if not found or any(text.split()[-1:] == [found] for text in hypotheses.values()):
        return None
    return found


def _of_unknown_words(hypotheses: Mapping[str, str], references: Mapping[str, str]) -> Iterator[str]:
    """:return: a line for each label of unknown words that references have: texts of a data set are made of labels"""
    words = [word for tag in hypotheses for word in references[tag].split()]
    for label in UNKNOWN_LABELS:
        num_unknown = sum(label in _UNKNOWN.findall(word) for word in words if label in word)
        if num_unknown:
            yield (
                f"{label!r} is, or is in, {num_unknown} of the {counted(len(words), 'word')} of the references, in "
                "place of what their vocabulary does not know. It counts as an error, also where hypotheses have it. "
                "To score against the words themselves, give a file with the texts as references."
            )


def _masked(reference: str) -> str:
    return _UNKNOWN.sub(lambda found: _MASKS[found.group()], reference)


def alignment_text(hypothesis: list[str], reference: list[str]) -> str:
    """:return: three lines with the words below each other: reference, hypothesis, and the kind of each error"""
    rows: list[list[str]] = [["  ref"], ["  hyp"], ["     "]]
    words = iter(reference)
    for word, masked in align(hypothesis, [_masked(word) for word in reference]):
        kind = "D" if word is None else "I" if masked is None else "" if word == masked else "S"
        wanted = None if masked is None else next(words)
        texts = [wanted or "*" * len(word or ""), word or "*" * len(wanted or ""), kind]
        width = max(map(len, texts))
        for row, text in zip(rows, texts, strict=True):
            row.append(text.ljust(width))
    return "\n".join(" ".join(row).rstrip() for row in rows)


def _errors(
    hypotheses: Mapping[str, str], references: Mapping[str, str], split: Callable[[str], list[str]]
) -> WordErrors:
    total = WordErrors()
    for tag, text in hypotheses.items():
        total += word_errors(split(text), split(references[tag]))
    return total


def _wer(hypotheses: Mapping[str, str], references: Mapping[str, str]) -> str:
    return str(_errors(hypotheses, references, str.split))


def _cer(hypotheses: Mapping[str, str], references: Mapping[str, str]) -> str:
    errors = _errors(hypotheses, references, lambda text: list(" ".join(text.split())))
    return str(errors).replace("WER", "CER", 1).replace("words", "characters", 1)


def _bleu(hypotheses: Mapping[str, str], references: Mapping[str, str]) -> str:
    score = corpus_bleu(list(hypotheses.values()), [references[tag] for tag in hypotheses])
    return f"BLEU {score:.2f} (13a, as sacreBLEU)"


METRICS: dict[str, Callable[[Mapping[str, str], Mapping[str, str]], str]] = {
    "wer": _wer,  # word error rate
    "cer": _cer,  # character error rate; white space counts as one character
    "bleu": _bleu,  # of the corpus
}
