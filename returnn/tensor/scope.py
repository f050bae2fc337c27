"""
Where values that belong to dims live: lengths, masks, the size of an axis.

They are computed once and then looked up, but only where they are valid: a length in a TensorFlow graph is of no use in
another graph, and one from inside a loop is of no use outside. So a value is kept by the scope in which it was made,
a graph or the body of a loop, and goes away with it. Eager code has no scopes; there, the dim itself keeps the values.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

Store = MutableMapping[Any, Any]

_providers: list[Callable[[], Sequence[Store]]] = []


def register_scope_provider(provider: Callable[[], Sequence[Store]], *, first: bool = False) -> None:
    """
    :param provider: gives the stores of the current scope and of all around it, innermost first; nothing if the backend
        is not building a graph
    :param first: it is asked before those which are there
    """
    _providers.insert(0 if first else len(_providers), provider)


def current_scopes() -> Sequence[Store]:
    """:return: the stores of the scopes that we are in, innermost first. Empty in eager code."""
    for provider in _providers:
        stores = provider()
        if stores:
            return stores
    return ()
