"""
What a config's own code finds when it runs: names which the toolkit itself does not use.

`returnn.compat` says here what it has to offer, so nothing else has to know that package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_preparations: list[Callable[[], None]] = []
_names_in_expressions: list[Callable[[], Mapping[str, Any]]] = []


def register_for_user_code(prepare: Callable[[], None], names_in_expressions: Callable[[], Mapping[str, Any]]) -> None:
    """
    :param prepare: is called before code of a user runs, maybe often
    :param names_in_expressions: gives what an expression can use, such as the option `eval` of a layer
    """
    _preparations.append(prepare)
    _names_in_expressions.append(names_in_expressions)


def prepare_for_user_code() -> None:
    """Has to be called before code of a user runs."""
    for prepare in _preparations:
        prepare()


def names_in_expressions() -> dict[str, Any]:
    """:return: what an expression on raw TensorFlow tensors can use, beside TensorFlow itself"""
    return {name: value for names in _names_in_expressions for name, value in names().items()}
