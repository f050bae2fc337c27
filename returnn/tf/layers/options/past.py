"""
Layer classes and options of net dicts that there were once. `returnn.compat` says which ones.

What can be said otherwise is translated. Of the rest, the error says what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from returnn.util.python.completion import announce_complete

NetDictEntry = dict[str, Any]  # options of one layer


@dataclass
class Past:
    """What net dicts once had."""

    renamed_classes: dict[str, str] = field(default_factory=dict)  # old -> new
    translations: dict[str, Callable[[NetDictEntry], NetDictEntry]] = field(default_factory=dict)  # by old class
    instead_of_class: dict[str, str] = field(default_factory=dict)  # class or loss -> what to write instead
    instead_of_option: dict[tuple[str, str], str] = field(default_factory=dict)  # the same of an option of a class


PAST = Past()


def translated(desc: Mapping[str, Any]) -> NetDictEntry:
    """
    :param desc: options of a layer
    :return: the same in today's words
    """
    layer_class = desc.get("class")
    translate = PAST.translations.get(layer_class) if isinstance(layer_class, str) else None
    return dict(desc) if translate is None else translate(dict(desc))


def current_class(name: Any) -> Any:
    """:return: today's name of a class"""
    return PAST.renamed_classes.get(name, name) if isinstance(name, str) else name


def hint_for_class(name: Any) -> str | None:
    """:return: what to write instead of an old class or loss; None if there was none of this name"""
    return PAST.instead_of_class.get(name) if isinstance(name, str) else None


def hint_for_option(layer_class: str, option: str) -> str | None:
    """:return: what to write instead of an old option; None if there was none of this name"""
    return PAST.instead_of_option.get((layer_class, option))


announce_complete(__name__)
