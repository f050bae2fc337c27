from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.datasets.util import text_post_process as tpp
from returnn.datasets.util.english_numbers import number_words, ordinal_words
from returnn.util.errors import ConfigError


@pytest.mark.parametrize(
    ("func", "text", "expected"),
    [
        ("lowercase", "Hi YOU", "hi you"),
        ("lowercase_keep_special", "Hi [NOISE] YOU[A]", "hi [NOISE] you[A]"),
        ("collapse_whitespace", "  a \t b ", "a b"),
        ("convert_to_ascii", "Café “Größe” \N{EN DASH} Ångström", 'Cafe "Grosse" - Angstrom'),
        ("expand_abbreviations", "Mr. and mrs. Smith, Dr.", "mister and misess Smith, doctor"),
        ("basic_cleaners", " Hi  YOU ", "hi you"),
        ("transliteration_cleaners", " CAFÉ ", "cafe"),
        ("english_cleaners", "Mr. Jones has 12cats, 3.5 dogs", "mister jones has twelve cats, three point five dogs"),
        ("english_cleaners_keep_special", "Hi [LAUGH2] 2 YOU", "hi [LAUGH2] two you"),
        ("normalize_numbers", "$3.50 on the 2nd", "three dollars, fifty cents on the second"),
        (
            "normalize_numbers",
            "in 1984, 2000, 2003, 1905",
            "in nineteen eighty-four, two thousand, two thousand three, nineteen oh five",
        ),
        ("normalize_numbers", "£1,234.01", "one thousand two hundred thirty-four pounds, one penny"),
        ("normalize_numbers", "$0.99 and $0", "ninety-nine cents and zero dollars"),
        ("normalize_numbers", "1,000,001", "one million one"),
    ],
)
def test_functions(func, text, expected):
    assert tpp.get_post_processor_function(func)(text) == expected
    assert getattr(tpp, func)(text) == expected


@given(st.integers(0, 10**18), st.integers(0, 10**18))
def test_numbers_have_words_of_their_own(a, b):
    assert (number_words(a) == number_words(b)) == (a == b)
    assert (ordinal_words(a) == ordinal_words(b)) == (a == b)


@pytest.mark.parametrize(
    ("number", "expected"), [(21, "twenty-first"), (20, "twentieth"), (112, "one hundred twelfth")]
)
def test_ordinals(number, expected):
    assert ordinal_words(number) == expected


@given(st.text())
def test_cleaners_keep_nothing_beyond_ascii(text):
    assert tpp.english_cleaners(text).isascii()


def test_calls_functions_and_lists():
    func = tpp.get_post_processor_function(["lowercase", "get_remove_chars('.,')", "get_replace('-', ' ')", str.strip])
    assert func(" A-B, c.") == "a b c"
    assert tpp.get_post_processor_function(None)("a  B") == "a  B"


@pytest.mark.parametrize(
    ("opts", "message"),
    [
        ("english_cleaner", "there is no function 'english_cleaner'.\n  Did you mean 'english_cleaners'"),
        ("get_replace", "'get_replace' needs arguments"),
        ("get_replace('a')", "missing 1 required positional argument: 'new'"),
    ],
)
def test_wrong_function_is_named(opts, message):
    with pytest.raises(ConfigError, match=message):
        tpp.get_post_processor_function(opts)
