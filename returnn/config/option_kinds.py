"""
What values an option can have, and in which forms configs write them.

Python and JSON configs have values, key-value configs have text, and the command line has something in between. So each
kind takes both: 5 and "5", True and "yes", ["a", "b"] and "a,b".
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from returnn.util.numbers.numbers_dict import NumbersDict
from returnn.util.texts.bool_text import to_bool

T = TypeVar("T")
AUTO = "auto"


@dataclass(frozen=True)
class Kind(Generic[T]):
    """
    :param expected: what it has to be, for messages: "an integer from 1"
    :param convert: from a value of the config, never None; raises ValueError or TypeError if that is something else
    :param choices: the possible values, if these are few words
    """

    expected: str
    convert: Callable[[Any], T]
    choices: tuple[str, ...] = ()


def integer_kind(minimum: int | None = None) -> Kind[int]:
    """:return: whole numbers, also 5.0 and "5" """

    def convert(value: Any) -> int:
        number = to_int(_single_number(value))
        if minimum is not None and number < minimum:
            raise ValueError(f"{number} is below {minimum}")
        return number

    return Kind("an integer" if minimum is None else f"an integer from {minimum}", convert)


def number_kind(minimum: float | None = None) -> Kind[float]:
    """:return: numbers, also "1e-3" """

    def convert(value: Any) -> float:
        number = to_float(_single_number(value))
        if minimum is not None and number < minimum:
            raise ValueError(f"{number} is below {minimum}")
        return number

    return Kind("a number" if minimum is None else f"a number of at least {minimum:g}", convert)


def choice_kind(*choices: str) -> Kind[str]:
    """:return: one of these words"""

    def convert(value: Any) -> str:
        word = to_text(value)
        if word not in choices:
            raise ValueError(f"{word!r} is none of them")
        return word

    few = ", ".join(map(repr, choices))
    return Kind(f"one of {few}" if len(choices) > 1 else few, convert, choices)


def auto_or_integer_kind(minimum: int) -> Kind[int | None]:
    """:return: None stands for "auto" """

    def convert(value: Any) -> int | None:
        return None if _single(value) == AUTO else integer.convert(value)

    integer = integer_kind(minimum)
    return Kind(f"{AUTO!r} or {integer.expected}", convert)


def any_of_kind(first: Kind[Any], *others: Kind[Any]) -> Kind[Any]:
    """:return: what one of these kinds takes, the first one first"""
    kinds = (first, *others)

    def convert(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind.convert(value)
            except (ValueError, TypeError):
                continue
        raise ValueError(f"{value!r} is nothing of that")

    expected = [kind.expected.replace(" or ", ", ") for kind in kinds[:-1]]
    return Kind(f"{', '.join(expected)} or {kinds[-1].expected}", convert)


def instance_kind(expected: str, *types: type, is_function: bool = False) -> Kind[Any]:
    """:return: instances of these classes as they are, and functions, if that is said"""

    def convert(value: Any) -> Any:
        if isinstance(value, types) or (is_function and callable(value)):
            return value
        raise TypeError(f"{type(value)} is something else")

    return Kind(expected, convert)


def to_int(value: Any) -> int:
    """:raises ValueError: also for a number which is not whole"""
    if isinstance(value, str):
        return int(value)
    if int(value) != value:
        raise ValueError(f"{value} is not a whole number")
    return int(value)


def to_float(value: Any) -> float:
    """:raises ValueError: also for NaN"""
    number = float(value)
    if math.isnan(number):
        raise ValueError(f"{value} is no number")
    return number


def to_text(value: Any) -> str:
    """:return: also of numbers, of paths, and of lists, whose entries are then separated by commas"""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, (list, tuple)):
        return ",".join(map(to_text, value))
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    has_own_text = "__str__" in vars(type(value))  # such as the path objects of workflow managers
    if not has_own_text or isinstance(value, bool) or callable(value):
        raise TypeError(f"{type(value)} is no text")
    return str(value)


def to_list(value: Any) -> list[Any]:
    """:return: the values; a single one becomes a list of one"""
    if isinstance(value, Mapping) or callable(value):
        raise TypeError(f"{type(value)} is no list")
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple)) else [value]


def expand_ints(value: Any) -> list[int]:
    """:return: the text `2-5` is 2, 3, 4, 5 and `7*3` is 7, 7, 7"""
    single, times = _split_times(value)
    first, last = single, None
    if isinstance(single, str) and "-" in single.lstrip()[1:]:
        first, _, last = single.rpartition("-")
    start = to_int(first)
    stop = start if last is None else to_int(last)
    return list(range(start, stop + 1)) * to_int(times)


def expand_floats(value: Any) -> list[float]:
    """:return: the text `0.1*3` is 0.1, 0.1, 0.1"""
    single, times = _split_times(value)
    return [to_float(single)] * to_int(times)


def _single(value: Any) -> Any:
    """:return: the entry of a list of one"""
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise ValueError(f"{value} are {len(value)} values")
        return value[0]
    return value


def _single_number(value: Any) -> Any:
    """:return: the same; False is 0, as many configs switch something off like that"""
    value = _single(value)
    if value is True:
        raise TypeError("True is no number")
    return value


def _split_times(value: Any) -> tuple[Any, Any]:
    """:return: for the text "a*b" the two parts, otherwise the value and 1"""
    if isinstance(value, str) and "*" in value:
        single, _, times = value.partition("*")
        return single, times
    return value, 1


def _to_texts(value: Any) -> list[str]:
    return [to_text(entry) for entry in to_list(value)]


def _to_data(value: Any) -> Any:
    """:return: None for data that is switched off"""
    if isinstance(value, str) and value.strip().lower() not in ("0", "false", "none", ""):
        return value
    if isinstance(value, (list, tuple)):
        return to_text(value)
    if value is True or isinstance(value, (float, complex)):
        raise TypeError("is no data")
    return value if value and not isinstance(value, str) else None


def _to_numbers(value: Any) -> float | Mapping[str, float] | NumbersDict:
    """:return: a number (whole ones as int), or several by data key"""
    if isinstance(value, NumbersDict):
        return value
    if isinstance(value, Mapping):
        return {key: _limit(number) for key, number in value.items() if number is not None}
    return _limit(_single_number(value))


def _limit(value: Any) -> float:
    number = _whole_as_int(value)
    if number < 0 and number != -1:
        raise ValueError(f"{number} is below 0")
    return number


def _whole_as_int(value: Any) -> float:
    number = to_float(value)
    return int(number) if number.is_integer() else number


BOOLEAN: Kind[bool] = Kind("True or False", lambda value: to_bool(_single(value)))
TEXT: Kind[str] = Kind("a text", to_text)
FILENAME: Kind[str] = Kind("a file name", to_text)
TEXTS: Kind[list[str]] = Kind("a text, or a list of texts", _to_texts)
INTEGERS: Kind[list[int]] = Kind(
    "a list of integers", lambda value: [number for entry in to_list(value) for number in expand_ints(entry)]
)
NUMBERS: Kind[list[float]] = Kind(
    "a list of numbers", lambda value: [number for entry in to_list(value) for number in expand_floats(entry)]
)
ENTRIES: Kind[list[Any]] = Kind("a list", to_list)
BATCH_SIZE: Kind[Any] = Kind(
    "a number from 0 (-1: no limit), a dict: data key -> number, or 'auto'",
    lambda value: value if value == "auto" else _to_numbers(value),
)
NUMBER_BY_KEY: Kind[Any] = Kind("a number from 0 (-1: no limit), or a dict: data key -> number", _to_numbers)
FUNCTION: Kind[Any] = instance_kind("a function", is_function=True)
DICT: Kind[Any] = instance_kind("a dict", Mapping)
DATA: Kind[Any] = Kind("a dict with the options of a data set, or a function that gives it", _to_data)
ANYTHING: Kind[Any] = Kind("anything", lambda value: value)
