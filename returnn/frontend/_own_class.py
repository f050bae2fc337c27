"""
A class for one object alone.

Python looks up special methods and properties at the class. To change them for one object, it gets a class of its own,
derived from the one that it had. Such a class never changes, as copies of the object have it too; the object gets a new
one.
"""

from __future__ import annotations

from typing import Any

_MEMBERS = "_members_of_own_class"


def set_member(obj: Any, name: str, value: Any) -> None:
    """Sets a member of the class, for this object alone."""
    _set_members(obj, {**_own_members(obj), name: value})


def delete_member(obj: Any, name: str) -> None:
    """Takes back what `set_member` did."""
    _set_members(obj, {key: value for key, value in _own_members(obj).items() if key != name})


def get_original_class(obj: Any) -> type:
    """:return: the class of the object, without its own one"""
    cls = type(obj)
    return cls.__mro__[1] if _MEMBERS in vars(cls) else cls


def _own_members(obj: Any) -> dict[str, Any]:
    members: dict[str, Any] = vars(type(obj)).get(_MEMBERS, {})
    return members


def _set_members(obj: Any, members: dict[str, Any]) -> None:
    cls = get_original_class(obj)
    if members:
        fixed = {"__module__": cls.__module__, "__doc__": cls.__doc__, "__qualname__": cls.__qualname__}
        cls = type(cls.__name__, (cls,), {**members, **fixed, _MEMBERS: members})
    obj.__class__ = cls
