"""
Functions from text to text, for the options `orth_post_process` and `targets_post_process`.

The cleaners are those which are usual in speech synthesis since Tacotron (Wang et al. 2017,
https://arxiv.org/abs/1703.10135). Ones ending in `_keep_special` keep words such as `[NOISE]` as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TypeAlias

from returnn.datasets.util.english_numbers import replace_numbers
from returnn.util.errors import ConfigError, check_known

TextFunc: TypeAlias = Callable[[str], str]

_ABBREVIATIONS = {
    "mrs": "misess",
    "mr": "mister",
    "dr": "doctor",
    "st": "saint",
    "co": "company",
    "jr": "junior",
    "maj": "major",
    "gen": "general",
    "drs": "doctors",
    "rev": "reverend",
    "lt": "lieutenant",
    "hon": "honorable",
    "sgt": "sergeant",
    "capt": "captain",
    "esq": "esquire",
    "ltd": "limited",
    "col": "colonel",
    "ft": "fort",
}
_ABBREVIATION_RE = re.compile(rf"\b({'|'.join(_ABBREVIATIONS)})\.", re.IGNORECASE)
_SPECIAL_RE = re.compile(r"(\[[^\[\]\s]*\])")
# What decomposition into letter and accent does not give.
_ASCII_OF = {
    "ß": "ss",
    "æ": "ae",
    "Æ": "AE",
    "œ": "oe",
    "Œ": "OE",
    "ø": "o",
    "Ø": "O",
    "đ": "d",
    "Đ": "D",
    "ł": "l",
    "Ł": "L",
    "þ": "th",
    "Þ": "Th",
    "ð": "d",
    "Ð": "D",
    "\N{LATIN SMALL LETTER DOTLESS I}": "i",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "--",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{DOUBLE LOW-9 QUOTATION MARK}": '"',
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "€": "EUR",
    "£": "GBP",
}


def lowercase(text: str) -> str:
    """:return: in lower case"""
    return text.lower()


def lowercase_keep_special(text: str) -> str:
    """:return: in lower case, but for words in square brackets"""
    return "".join(part if _SPECIAL_RE.fullmatch(part) else part.lower() for part in _SPECIAL_RE.split(text))


def collapse_whitespace(text: str) -> str:
    """:return: with one space between words, and none at the ends"""
    return " ".join(text.split())


def convert_to_ascii(text: str) -> str:
    """:return: without accents; other characters beyond ASCII become the nearest ones, or are left out"""
    replaced = "".join(_ASCII_OF.get(char, char) for char in text)
    return unicodedata.normalize("NFKD", replaced).encode("ascii", "ignore").decode("ascii")


def expand_abbreviations(text: str) -> str:
    """:return: with "Mr." as "mister" and so on"""
    return _ABBREVIATION_RE.sub(lambda match: _ABBREVIATIONS[match[1].lower()], text)


def normalize_numbers(text: str, with_spacing: bool = False) -> str:
    """
    :param text: e.g. "$3.50 on the 2nd"
    :param with_spacing: put spaces around the words, where digits stood at letters
    :return: with English words for numbers
    """
    return replace_numbers(text, with_spacing=with_spacing)


def basic_cleaners(text: str) -> str:
    """:return: in lower case, with single spaces"""
    return collapse_whitespace(lowercase(text))


def transliteration_cleaners(text: str) -> str:
    """:return: as `basic_cleaners`, in ASCII"""
    return basic_cleaners(convert_to_ascii(text))


def english_cleaners(text: str) -> str:
    """:return: in ASCII and lower case, with numbers and abbreviations in words"""
    text = lowercase(convert_to_ascii(text))
    return collapse_whitespace(expand_abbreviations(normalize_numbers(text, with_spacing=True)))


def english_cleaners_keep_special(text: str) -> str:
    """:return: as `english_cleaners`, but for words in square brackets"""
    parts = _SPECIAL_RE.split(convert_to_ascii(text))
    cleaned = [part if _SPECIAL_RE.fullmatch(part) else f" {english_cleaners(part)} " for part in parts]
    return collapse_whitespace("".join(cleaned))


def get_remove_chars(chars: str | Sequence[str]) -> TextFunc:
    """:return: function that leaves out these characters"""
    table = str.maketrans("", "", "".join(chars))
    return lambda text: text.translate(table)


def get_replace(old: str, new: str) -> TextFunc:
    """:return: function that replaces one string by another one"""
    return lambda text: text.replace(old, new)


_FUNCTIONS: dict[str, TextFunc] = {
    func.__name__: func
    for func in (
        basic_cleaners,
        collapse_whitespace,
        convert_to_ascii,
        english_cleaners,
        english_cleaners_keep_special,
        expand_abbreviations,
        lowercase,
        lowercase_keep_special,
        normalize_numbers,
        transliteration_cleaners,
    )
}
_FACTORIES: dict[str, Callable[..., TextFunc]] = {"get_remove_chars": get_remove_chars, "get_replace": get_replace}


def get_post_processor_function(opts: str | TextFunc | Sequence[str | TextFunc] | None) -> TextFunc:
    """
    :param opts: name of one of the functions here, as "english_cleaners"; a call that returns one, as
        "get_remove_chars('.,')" or "get_replace('-', ' ')"; a function; or a list of all that, to do one after another.
        Names: basic_cleaners, transliteration_cleaners and english_cleaners, as since Tacotron;
        english_cleaners_keep_special, which keeps words as `[NOISE]`; and their parts collapse_whitespace,
        convert_to_ascii, expand_abbreviations, lowercase, lowercase_keep_special, normalize_numbers
    :raises ConfigError: if there is no such function
    """
    if opts is None or opts == "":
        return str
    if callable(opts):
        return opts
    if isinstance(opts, str):
        return _parse_function(opts)
    functions = [get_post_processor_function(func) for func in opts]

    def apply_all(text: str) -> str:
        for func in functions:
            text = func(text)
        return text

    return apply_all


def _parse_function(text: str) -> TextFunc:
    name, bracket, _ = text.partition("(")
    check_known("function", name, [*_FUNCTIONS, *_FACTORIES], where="text post-processing")
    if not bracket and name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if not bracket:
        raise ConfigError(f"text post-processing: {text!r} needs arguments, as in \"{name}('-')\".")
    try:
        func = eval(text, dict(_FACTORIES))  # the config is Python anyway
    except (SyntaxError, TypeError, NameError) as exc:
        raise ConfigError(f"text post-processing: {text!r}: {exc}.") from exc
    if not callable(func):
        raise ConfigError(f"text post-processing: {text!r} gives no function.")
    return func  # type: ignore[no-any-return]
