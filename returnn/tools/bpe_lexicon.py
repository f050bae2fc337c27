"""A Bliss lexicon in which words are made of BPE labels."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from returnn.util.bpe import BpeOpts, CharSyncSearch, PrefixTree
from returnn.util.errors import UserError

_MERGE = "@@"
_BRACKETS = ("[]", "<>")


def bpe_lexicon_xml(
    words: Sequence[str],
    labels: Sequence[str],
    *,
    unknown_label: str | None = None,
    skip_special: bool = False,
    lower_case: bool = False,
) -> str:
    """
    :param words: the lemmas
    :param labels: BPE labels; with "@@" at the end where the word goes on
    :param unknown_label: the only label of words which no labels make up
    :param skip_special: leave out words in brackets, such as "[NOISE]"
    :param lower_case: split words in lower case
    :return: the lexicon, with all splits of each word as pronunciations
    :raises UserError: if a word cannot be split, without `unknown_label`
    """
    if unknown_label is not None and unknown_label not in labels:
        raise UserError(f"option '--unk': {unknown_label!r} is none of the {len(labels)} BPE labels.")
    tree = PrefixTree(opts=BpeOpts(label_postfix_merge_symbol=_MERGE))
    for label in labels:
        if not _is_special(label):
            tree.add(label)
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<lexicon>", "  <phoneme-inventory>"]
    for label in labels:
        symbol = f"<symbol>{escape(label)}</symbol><variation>none</variation>"
        lines.append(f"    <phoneme>{symbol}</phoneme>")
    lines.append("  </phoneme-inventory>")
    for word in words:
        if _is_special(word) and skip_special:
            continue
        splits = _splits(tree, word.lower() if lower_case else word, unknown_label)
        lines.append(f"  <lemma><orth>{escape(word)}</orth>")
        lines += [f"    <phon>{escape(' '.join(split))}</phon>" for split in splits]
        lines.append("  </lemma>")
    return "\n".join([*lines, "</lexicon>", ""])


def _splits(tree: PrefixTree, word: str, unknown_label: str | None) -> list[list[str]]:
    splits = [[*(f"{part}{_MERGE}" for part in split[:-1]), split[-1]] for split in _raw_splits(tree, word)]
    if splits:
        return sorted(splits, key=lambda split: (len(split), split))
    if unknown_label is None:
        raise UserError(
            f"the word {word!r} cannot be made of the BPE labels.\n  '--unk LABEL' gives such words a label."
        )
    return [[unknown_label]]


def _raw_splits(tree: PrefixTree, word: str) -> list[list[str]]:
    """:return: parts of the word, without merge symbols"""
    found = CharSyncSearch(tree, word).search()
    return [[part.removesuffix(_MERGE) for part in split] for split in found]


def _is_special(word: str) -> bool:
    return any(word.startswith(left) and word.endswith(right) for left, right in _BRACKETS)
