"""Text as it is said, to symbols of a language model: characters or words, and special symbols as `[NOISE]`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from returnn.util.errors import check_known


def parse_orthography_into_symbols(
    orthography: str,
    upper_case_special: bool = True,
    word_based: bool = False,
    square_brackets_for_specials: bool = True,
) -> list[str]:
    """
    :param orthography: text, e.g. "hi [noise] there"
    :param upper_case_special: special symbols in upper case: "[NOISE]"
    :param word_based: words, otherwise characters
    :param square_brackets_for_specials: what is in square brackets is one symbol
    :return: symbols. Of characters, each space is one
    """
    if word_based:
        words = orthography.split()
        return [_special(word, upper_case_special) if _is_special(word) else word for word in words]
    if not square_brackets_for_specials:
        return list(orthography)
    symbols: list[str] = []
    rest = orthography
    while rest:
        start, end = rest.find("["), rest.find("]")
        if start < 0 or end < start:
            symbols.extend(rest)
            break
        symbols.extend(rest[:start])
        symbols.append(_special(rest[start : end + 1], upper_case_special))
        rest = rest[end + 1 :]
    return symbols


def parse_orthography(
    orthography: str,
    prefix: Iterable[str] = (),
    postfix: Iterable[str] = ("[END]",),
    remove_chars: str = "(){}",
    collapse_spaces: bool = True,
    final_strip: bool = True,
    **kwargs: Any,
) -> list[str]:
    """
    :param orthography: text
    :param prefix: symbols put before
    :param postfix: symbols put after
    :param remove_chars: characters to leave out
    :param collapse_spaces: several spaces become one
    :param final_strip: no spaces at the ends
    :param kwargs: options of `parse_orthography_into_symbols`
    :return: symbols
    """
    for name in kwargs:
        check_known("option", name, _SYMBOL_OPTIONS, where="parse_orthography")
    text = orthography.translate({ord(char): None for char in remove_chars})
    text = " ".join(text.split()) if collapse_spaces and final_strip else _collapsed(text, collapse_spaces, final_strip)
    return [*prefix, *parse_orthography_into_symbols(text, **kwargs), *postfix]


_SYMBOL_OPTIONS = ("upper_case_special", "word_based", "square_brackets_for_specials")


def _collapsed(text: str, collapse_spaces: bool, final_strip: bool) -> str:
    if final_strip:
        return text.strip()
    if not collapse_spaces:
        return text
    start = " " if text[:1].isspace() else ""
    end = " " if text[-1:].isspace() and text.strip() else ""
    return start + " ".join(text.split()) + end


def _is_special(word: str) -> bool:
    return word.startswith("[") and word.endswith("]")


def _special(symbol: str, upper_case: bool) -> str:
    return symbol.upper() if upper_case else symbol
