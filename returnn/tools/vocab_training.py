"""Vocabularies from text: words, characters, byte pair encoding, SentencePiece."""

from __future__ import annotations

import io
import itertools
import operator
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from returnn.util.bpe import StandardBytePairEncoder
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.python.optional_import import import_optional
from returnn.util.texts.bpe_learning import codes_text, learn_bpe
from returnn.util.texts.counted import counted

END, UNKNOWN = "</s>", "<unk>"
_MAX_SHOWN = 20  # characters
_SPECIAL = [END, UNKNOWN]


def write_words(texts: Iterable[str], prefix: str, size: int | None) -> dict[str, Any]:
    """
    :param texts: the sentences
    :param prefix: of the names of the files
    :param size: at most so many labels, the most frequent ones
    :return: options of `Vocabulary`
    :raises UserError: if there is no text, or the size is too small
    """
    return _written(prefix, _most_frequent(_words_in(texts), size), unknown_label=UNKNOWN)


def write_characters(texts: Iterable[str], prefix: str, size: int | None) -> dict[str, Any]:
    """See `write_words`."""
    counts = _not_empty(Counter(char for text in texts for char in text.rstrip("\n")))
    labels = _most_frequent(counts, size)
    _warn_of_missing(counts, set(counts).difference(labels), option="a larger '--size'")
    return {"class": "CharacterTargets", **_written(prefix, labels, unknown_label=UNKNOWN)}


def write_bpe(texts: Iterable[str], prefix: str, size: int | None) -> dict[str, Any]:
    """See `write_words`. The size is that of the vocabulary."""
    words = _words_in(texts)
    counts = _not_empty(Counter({word: count for word, count in words.items() if word not in _SPECIAL}))
    num_chars = len({char for word in counts for char in word})
    at_least = len(_SPECIAL) + 2 * num_chars
    if _needed(size, "bpe") < at_least:
        raise UserError(
            f"option '--size': {size} is not enough: the texts have "
            f"{counted(num_chars, 'character')}, so that at least"
            f" {at_least} are needed: each of them, within a word and at its end, {' and '.join(_SPECIAL)}."
        )
    merges = learn_bpe(counts, _needed(size, "bpe") - at_least)
    write_atomic(f"{prefix}.codes", codes_text(merges))
    encoder = StandardBytePairEncoder(f"{prefix}.codes")
    used = Counter(label for word, count in counts.items() for label in encoder.segment_sentence(word) * count)
    parts = {char + end for word in counts for char in word for end in ("", "@@")}
    labels = [label for label, _ in _sorted(used)] + sorted(parts - set(used))
    return {
        "class": "BytePairEncoding",
        "bpe_file": f"{prefix}.codes",
        **_written(prefix, labels, unknown_label=UNKNOWN),
    }


def write_sentence_pieces(
    texts: Iterable[str], prefix: str, size: int | None, character_coverage: float = 1.0
) -> dict[str, Any]:
    """
    See `write_words`. Needs the package `sentencepiece`.

    :param character_coverage: the part of the characters that get labels. The default of the package, 0.9995, is for
        Japanese or Chinese; of an alphabet, it leaves out letters and digits
    """
    package = import_optional("sentencepiece", needed_for="vocabularies by SentencePiece")
    model = io.BytesIO()
    counts: Counter[str] = Counter()
    try:
        package.SentencePieceTrainer.train(
            sentence_iterator=_with_counts(_without_special_labels(texts), counts),
            character_coverage=character_coverage,
            model_writer=model,
            vocab_size=_needed(size, "sentencepiece"),
            eos_id=0,
            unk_id=1,
            bos_id=-1,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    except RuntimeError as exc:
        raise _sentence_piece_error(str(exc)) from exc
    write_atomic(f"{prefix}.model", model.getvalue())
    pieces = package.SentencePieceProcessor(model_proto=model.getvalue())
    missing = {char for char in counts if pieces.unk_id() in pieces.encode(char)}
    _warn_of_missing(counts, missing, option="a larger '--character_coverage'")
    return {"class": "SentencePieces", "model_file": f"{prefix}.model", "add_eos": True}


def _sentence_piece_error(text: str) -> UserError:
    """:return: the same without the code of the package, and without its options, which are not those of here"""
    sizes = re.search(r"smaller than required_chars\. (\d+) vs (\d+)", text)
    if sizes is None:
        return UserError(f"SentencePiece: {re.sub(r'^.*] +', '', text, flags=re.DOTALL)}")
    return UserError(
        f"option '--size': {sizes[1]} is not enough: with the characters of the texts, {' and '.join(_SPECIAL)},"
        f" at least {sizes[2]} are needed. '--character_coverage 0.9995' leaves out rare characters."
    )


def _with_counts(texts: Iterable[str], counts: Counter[str]) -> Iterator[str]:
    """:return: the same texts; their characters, as SentencePiece sees them, are added to `counts`"""
    for text in texts:
        counts.update(unicodedata.normalize("NFKC", text))
        yield text


def _warn_of_missing(counts: Mapping[str, int], missing: Set[str], *, option: str) -> None:
    if not missing:
        return
    found = sorted(missing, key=lambda char: (-counts[char], char))
    shown = ", ".join(f"{char!r} ({counts[char]:,})" for char in found[:_MAX_SHOWN])
    print(
        f"WARNING: {counted(len(found), 'character')} of the texts without a label, which will be {UNKNOWN} "
        f"(in brackets: how often): {shown}"
        f"{', ...' if len(found) > _MAX_SHOWN else ''}. What helps is {option}.",
        file=sys.stderr,
    )


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "words": write_words,
    "chars": write_characters,
    "bpe": write_bpe,
    "sentencepiece": write_sentence_pieces,
}


def _written(prefix: str, labels: Sequence[str], **options: Any) -> dict[str, Any]:
    """:return: options of a vocabulary, whose sequences end with label 0"""
    others = [label for label in labels if label not in _SPECIAL]  # some texts have "<unk>" as a word
    text = "[\n" + "".join(f"{label!r},\n" for label in [*_SPECIAL, *others]) + "]\n"
    write_atomic(f"{prefix}.vocab", text)
    return {"vocab_file": f"{prefix}.vocab", **options, "eos_label": END, "seq_postfix": [0]}


def _words_in(texts: Iterable[str]) -> Counter[str]:
    return _not_empty(Counter(word for text in texts for word in text.split()))


def _not_empty(counts: Counter[str]) -> Counter[str]:
    if not counts:
        raise UserError("the texts are empty, so that there is nothing to make a vocabulary of.")
    return counts


def _without_special_labels(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        words = text.split()
        is_special = [word in _SPECIAL for word in words]
        yield " ".join(itertools.compress(words, map(operator.not_, is_special))) if any(is_special) else text


def _most_frequent(counts: Counter[str], size: int | None) -> list[str]:
    labels = [label for label, _ in _sorted(counts) if label not in _SPECIAL]
    if size is not None and size <= len(_SPECIAL):
        raise UserError(f"option '--size': {size} is not enough: two of them are {' and '.join(_SPECIAL)}.")
    return labels if size is None else labels[: size - len(_SPECIAL)]


def _sorted(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _needed(size: int | None, kind: str) -> int:
    if size is None:
        raise UserError(f"kind {kind!r}: the option '--size' is required: the number of labels.")
    return size
