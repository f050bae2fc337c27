"""
Packages that others complete: `returnn.compat` gives old names to the classes of a package which knows nothing of it.

A package says at the end of its `__init__` that it is there. Who wants to add something asks to be called then.
"""

from __future__ import annotations

from collections.abc import Callable

_actions: dict[str, list[Callable[[], None]]] = {}
_complete: set[str] = set()


def when_complete(package: str, action: Callable[[], None]) -> None:
    """Calls `action` as soon as the package was imported."""
    if package in _complete:
        action()
    else:
        _actions.setdefault(package, []).append(action)


def announce_complete(package: str) -> None:
    """Called by a package, when all of it was imported."""
    _complete.add(package)
    for action in _actions.pop(package, []):
        action()
