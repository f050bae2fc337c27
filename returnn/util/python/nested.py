"""Nested dicts, lists, tuples and sets, e.g. a net dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def map_nested(func: Callable[[Any], Any], value: Any) -> Any:
    """
    :param func: is called for everything that is no container
    :param value: nested containers
    :return: the same, of new containers. Keys of dicts stay as they are.
    """
    if isinstance(value, dict):
        return type(value)((key, map_nested(func, entry)) for key, entry in value.items())
    if is_namedtuple(type(value)):
        return type(value)(*(map_nested(func, entry) for entry in value))
    if isinstance(value, (list, tuple, set)):
        return type(value)(map_nested(func, entry) for entry in value)
    return func(value)


def iter_nested(value: Any) -> Iterator[Any]:
    """:return: everything in there that is no container"""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set)):
        yield value
        return
    for entry in value:
        yield from iter_nested(entry)


def deepcopy(x: Any, stop_types: Iterable[type] | None = None) -> Any:
    """
    :param x: nested containers
    :param stop_types: objects of these types are not copied
    :return: new containers with the same objects inside: a dim in a net dict has to remain that dim
    """
    types = tuple(stop_types or ())
    if types and isinstance(x, types):
        return x
    if isinstance(x, dict):
        return type(x)((key, deepcopy(entry, types)) for key, entry in x.items())
    if isinstance(x, (list, tuple, set)) and not is_namedtuple(type(x)):
        return type(x)(deepcopy(entry, types) for entry in x)
    return x


def is_namedtuple(cls: type) -> bool:
    """:return: whether the class is a `namedtuple`, which is made of arguments and not of one sequence"""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def make_seq_of_type(cls: type, seq: Iterable[Any]) -> Any:
    """:return: list, tuple, set or namedtuple of these entries"""
    return cls(*seq) if is_namedtuple(cls) else cls(seq)


def make_hashable(obj: Any) -> Any:
    """
    :return: the same with tuples and frozensets, usable as a key
    :raises TypeError: if something in it cannot be hashed
    """
    if isinstance(obj, dict):
        return frozenset((key, make_hashable(value)) for key, value in obj.items())
    if isinstance(obj, (list, tuple)):
        return tuple(make_hashable(entry) for entry in obj)
    if isinstance(obj, (set, frozenset)):
        return frozenset(make_hashable(entry) for entry in obj)
    hash(obj)
    return obj


def deep_update_dict_values(d: dict[Any, Any], key: Any, new_value: Any) -> None:
    """
    :param d: is changed, as well as all dicts in it
    :param key: wherever it is set already
    :param new_value: the new value for it
    """
    for entry in d.values():
        if isinstance(entry, dict):
            deep_update_dict_values(entry, key, new_value)
    if key in d:
        d[key] = new_value
