"""Numbers in text as English words."""

from __future__ import annotations

import re

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["", "", *["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]]
_SCALES = ["", *["thousand", "million", "billion", "trillion", "quadrillion", "quintillion"]]
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_CURRENCIES = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent")}
_PLURALS = {"penny": "pence"}

_NUMBER_RE = re.compile(
    r"(?P<currency>[$£€])?(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<fraction>\d+))?(?P<ordinal>(?:st|nd|rd|th)\b)?"
)


def replace_numbers(text: str, *, with_spacing: bool) -> str:
    """
    :param text: e.g. "$3.50 on the 2nd"
    :param with_spacing: put spaces around the words, where digits stood at letters
    :return: e.g. "three dollars, fifty cents on the second"
    """

    def words(match: re.Match[str]) -> str:
        spoken = _spoken(match)
        if not with_spacing:
            return spoken
        before, after = text[: match.start()][-1:], text[match.end() :][:1]
        return f"{' ' if before.isalnum() else ''}{spoken}{' ' if after.isalnum() else ''}"

    return _NUMBER_RE.sub(words, text)


def number_words(number: int) -> str:
    """
    :param number: not negative
    :return: e.g. "one hundred twenty-three"
    """
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f"-{_ONES[number % 10]}" if number % 10 else "")
    if number < 1000:
        return f"{_ONES[number // 100]} hundred" + (f" {number_words(number % 100)}" if number % 100 else "")
    if number >= 1000 ** len(_SCALES):
        return " ".join(_ONES[int(digit)] for digit in str(number))
    groups = []
    for scale in _SCALES:
        number, group = divmod(number, 1000)
        if group:
            groups.append(f"{number_words(group)} {scale}".strip())
    return " ".join(reversed(groups))


def year_words(year: int) -> str:
    """
    :param year: 1000 to 2999
    :return: as years are read: "nineteen eighty-four", "two thousand three"
    """
    century, rest = divmod(year, 100)
    if century % 10 == 0 and rest < 10:
        return number_words(year)
    if rest == 0:
        return f"{number_words(century)} hundred"
    return f"{number_words(century)} {'oh ' if rest < 10 else ''}{number_words(rest)}"


def ordinal_words(number: int) -> str:
    """:return: e.g. "twenty-first\""""
    words = number_words(number)
    start = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[start:]
    if last in _ORDINALS:
        return words[:start] + _ORDINALS[last]
    return words[:start] + (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")


def _spoken(match: re.Match[str]) -> str:
    whole, fraction = int(match["whole"].replace(",", "")), match["fraction"]
    if match["currency"]:
        return _money_words(match["currency"], whole, fraction)
    if fraction is not None:
        digits = " ".join(_ONES[int(digit)] for digit in fraction)
        return f"{number_words(whole)} point {digits}"
    if match["ordinal"]:
        return ordinal_words(whole)
    is_year = 1000 < whole < 3000 and "," not in match["whole"]
    return year_words(whole) if is_year else number_words(whole)


def _money_words(currency: str, whole: int, fraction: str | None) -> str:
    unit, cent = _CURRENCIES[currency]
    cents = int((fraction or "")[:2].ljust(2, "0"))
    parts = [_amount(whole, unit)] if whole or not cents else []
    return ", ".join([*parts, *([_amount(cents, cent)] if cents else [])])


def _amount(number: int, unit: str) -> str:
    return f"{number_words(number)} {unit if number == 1 else _PLURALS.get(unit, unit + 's')}"
