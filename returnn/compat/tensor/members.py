"""Giving a class of the core the methods and properties that only old code knows."""

from __future__ import annotations

_OF_EVERY_CLASS = frozenset(vars(type("Empty", (), {}))) | {
    "__annotations__",
    "__firstlineno__",
    "__orig_bases__",
    "__parameters__",
    "__static_attributes__",
    "__hash__",
}


def give_members(owner: type, members: type) -> None:
    """
    Gives `owner` all methods and properties of the class `members`, which is written as if it derived from `owner`.

    :raises TypeError: if `owner` has one of them already
    """
    for name in names_of_members(members):
        if hasattr(owner, name):
            raise TypeError(f"{owner.__name__} has a member {name!r} already.")
        setattr(owner, name, vars(members)[name])


def names_of_members(members: type) -> list[str]:
    """:return: what the class adds to those that it derives from"""
    return [name for name in vars(members) if name not in _OF_EVERY_CLASS]
