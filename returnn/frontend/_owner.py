"""
Which module a module or parameter belongs to, and under which attribute. From this follow the names of parameters.

It is kept apart from the objects, so that a copy of a module does not take the name of the original.
"""

from __future__ import annotations

import weakref
from typing import Any

_owners: dict[int, tuple[weakref.ref[Any], weakref.ref[Any], str]] = {}  # by id: child, owner, attribute


def set_owner(child: Any, owner: Any, attribute: str) -> None:
    """Notes that `owner` has `child` under `attribute`. If several have it, the first one gives the name."""
    known = _owners.get(id(child))
    if known is not None and known[0]() is child and known[1]() is not None:
        return
    key = id(child)

    def forget(ref: weakref.ref[Any]) -> None:
        if key in _owners and _owners[key][0] is ref:
            del _owners[key]

    _owners[key] = weakref.ref(child, forget), weakref.ref(owner), attribute


def get_full_name(child: Any) -> str | None:
    """:return: attributes on the way from the outermost module, such as "encoder.layers.0.weight"; None: no owner"""
    names: list[str] = []
    visited = set()
    while id(child) in _owners and id(child) not in visited:
        visited.add(id(child))
        _, owner, attribute = _owners[id(child)]
        names.insert(0, attribute)
        child = owner()
    return ".".join(names) or None


def get_owner(child: Any) -> tuple[Any, str] | None:
    """:return: what has it, and under which attribute; None if nothing has"""
    known = _owners.get(id(child))
    if known is None or known[0]() is not child:
        return None
    owner = known[1]()
    return None if owner is None else (owner, known[2])
