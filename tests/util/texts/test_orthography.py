from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.util.errors import ConfigError
from returnn.util.texts.orthography import parse_orthography, parse_orthography_into_symbols


@pytest.mark.parametrize(
    ("text", "opts", "expected"),
    [
        ("hi you", {}, ["h", "i", " ", "y", "o", "u"]),
        ("a[noise]b", {}, ["a", "[NOISE]", "b"]),
        ("a[noise]b", {"upper_case_special": False}, ["a", "[noise]", "b"]),
        ("[a]", {"square_brackets_for_specials": False}, ["[", "a", "]"]),
        ("a] [b", {}, ["a", "]", " ", "[", "b"]),
        ("hi  [noise] you", {"word_based": True}, ["hi", "[NOISE]", "you"]),
        ("", {}, []),
    ],
)
def test_symbols(text, opts, expected):
    assert parse_orthography_into_symbols(text, **opts) == expected


@pytest.mark.parametrize(
    ("text", "opts", "expected"),
    [
        (" (a)  b ", {}, ["a", " ", "b", "[END]"]),
        (" a  b ", {"postfix": [], "collapse_spaces": False}, ["a", " ", " ", "b"]),
        ("  a  b ", {"postfix": [], "final_strip": False}, [" ", "a", " ", "b", " "]),
        ("  ", {"postfix": [], "final_strip": False}, [" "]),
        ("a b", {"prefix": ["[START]"], "word_based": True}, ["[START]", "a", "b", "[END]"]),
        ("(a)", {"remove_chars": "a"}, ["(", ")", "[END]"]),
    ],
)
def test_parse(text, opts, expected):
    assert parse_orthography(text, **opts) == expected


@given(st.text(alphabet="ab []"))
def test_no_character_is_lost(text):
    assert "".join(parse_orthography_into_symbols(text, upper_case_special=False)) == text


def test_unknown_option_is_named():
    with pytest.raises(ConfigError, match=r"there is no option 'word_base'.\n  Did you mean 'word_based'"):
        parse_orthography("a", word_base=True)
