"""Small operations on lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy

from returnn.util.errors import ConfigError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def prod(ls: Iterable[Any]) -> Any:
    """:return: the product, of anything that can be multiplied; 1 if there is nothing"""
    res: Any = 1
    for index, value in enumerate(ls):
        res = value if index == 0 else res * value
    return res


def uniq(seq: numpy.ndarray[Any, Any] | Sequence[Any]) -> numpy.ndarray[Any, Any]:
    """:return: without entries that are equal to the one before, like the Unix tool; an array"""
    array: numpy.ndarray[Any, Any] = numpy.asarray(seq)
    keep: numpy.ndarray[Any, Any] = numpy.ones(len(array), dtype=bool)
    keep[1:] = array[1:] != array[:-1]
    return numpy.compress(keep, array, axis=0)


def uniq_generic(seq: Iterable[T]) -> list[T]:
    """:return: without entries that are equal to the one before, like the Unix tool; for any entries"""
    res: list[T] = []
    for value in seq:
        if not res or res[-1] != value:
            res.append(value)
    return res


def find_ranges(ls: Iterable[int]) -> list[tuple[int, int]]:
    """
    :param ls: sorted
    :return: start and end (exclusive) of each run of consecutive numbers
    """
    ranges: list[tuple[int, int]] = []
    for value in ls:
        if ranges and ranges[-1][1] == value:
            ranges[-1] = (ranges[-1][0], value + 1)
        else:
            ranges.append((value, value + 1))
    return ranges


def binary_search_any(cmp: Callable[[int], int], low: int, high: int) -> int | None:
    """
    :param cmp: negative if the index is too low, positive if it is too high, 0 if it is right
    :param low: inclusive
    :param high: exclusive
    :return: any right index; None if there is none
    """
    while low < high:
        middle = (low + high) // 2
        order = cmp(middle)
        if order == 0:
            return middle
        low, high = (middle + 1, high) if order < 0 else (low, middle)
    return None


def sorted_values_from_dict(d: Mapping[Any, T]) -> list[T]:
    """:return: the values in the order of the keys"""
    return [value for _, value in sorted(d.items())]


def dict_zip(keys: Sequence[K], values: Sequence[T]) -> dict[K, T]:
    """:return: a dict of keys and values, of which there are equally many"""
    return dict(zip(keys, values, strict=True))


def dict_joined(*ds: Mapping[K, T]) -> dict[K, T]:
    """:return: all in one; the last one wins"""
    res: dict[K, T] = {}
    for d in ds:
        res.update(d)
    return res


def ensure_list_of_type(ls: Iterable[Any], type_: type[T]) -> list[T]:
    """
    :return: the entries as a list
    :raises ConfigError: if one has another type
    """
    res = list(ls)
    wrong = [value for value in res if not isinstance(value, type_)]
    if wrong:
        raise ConfigError(f"expected a list of {type_.__name__}, but there is {wrong[0]!r}.")
    return res
