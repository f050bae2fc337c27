"""Numbers of things in messages: "1 layer", "2 layers"."""

from __future__ import annotations

import re
from collections.abc import Sequence

_IRREGULAR = {"axis": "axes", "epoch": "epochs", "hypothesis": "hypotheses"}


def counted(number: int, noun: str, format_spec: str = "") -> str:
    """
    :param number: of the things
    :param noun: what one of them is called; words may stand before it
    :param format_spec: of the number, such as ","
    :return: the number and the noun, which is a plural for all numbers but 1
    """
    return f"{number:{format_spec}} {noun if number == 1 else plural(noun)}"


def there_are(number: int, noun: str, format_spec: str = "") -> str:
    """:return: the same as `counted` says, as a sentence: "there is 1 label", "there are 5 labels" """
    return f"there {are(number)} {counted(number, noun, format_spec)}"


def are(number: int) -> str:
    """:return: the verb after so many things"""
    return "is" if number == 1 else "are"


def some_of(names: Sequence[str], most: int = 5) -> str:
    """:return: the first ones of these names, quoted, and how many more there are"""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def plural(noun: str) -> str:
    """:return: what several of them are called"""
    before, _, last = noun.rpartition(" ")
    if last in _IRREGULAR:
        last = _IRREGULAR[last]
    elif re.search(r"([^aeiou]y)$", last):
        last = f"{last[:-1]}ies"
    else:
        last += "es" if re.search(r"(s|x|ch|sh)$", last) else "s"
    return f"{before} {last}".lstrip()
