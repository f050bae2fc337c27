"""Nested structures, as they go through a loop or come out of a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.util.errors import UserError
from returnn.util.python.nested import is_namedtuple


def map_leaves(function: Callable[[str, Any], Any], value: Any, path: str = "") -> Any:
    """
    :param function: (path, leaf) -> new leaf
    :param value: dicts, lists, tuples and what is in there, the leaves
    :param path: name of the value
    :return: the same structure with the new leaves
    """
    if isinstance(value, dict):
        return type(value)({key: map_leaves(function, x, f"{path}.{key}") for key, x in value.items()})
    if isinstance(value, (list, tuple)):
        entries = [map_leaves(function, x, f"{path}.{i}") for i, x in enumerate(value)]
        return type(value)(*entries) if is_namedtuple(type(value)) else type(value)(entries)
    return function(path, value)


def leaves_by_path(value: Any) -> dict[str, Any]:
    """:return: all leaves, by their paths, such as ".state.h" """
    leaves: dict[str, Any] = {}
    map_leaves(leaves.__setitem__, value)
    return leaves


def check_same_paths(what: str, first: dict[str, Any], second: dict[str, Any], *, names: tuple[str, str]) -> None:
    """:raises UserError: if a leaf is only in one of them"""
    for a, b, names_ in ((first, second, names), (second, first, names[::-1])):
        only = sorted(path for path in a if path not in b)
        if only:
            raise UserError(
                f"{what}: {only[0].lstrip('.') or 'the value'!r} is in {names_[0]}, but not in {names_[1]}."
            )
