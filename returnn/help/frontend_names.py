"""The functions and modules of `returnn.frontend`, which models in Python are made of: a list, and entries to find."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import returnn.frontend as rf
from returnn.help.class_text import first_sentence_of, rows_text
from returnn.util.python.optional_import import MissingPackageError

_ROOT = "returnn.frontend"


@dataclass(frozen=True)
class FrontendName:
    """A function or class."""

    name: str  # "rf.cross_entropy", or with its module: "returnn.frontend.search.beam_search"
    module: str
    about: str
    docstring: str


@functools.cache
def frontend_names() -> tuple[FrontendName, ...]:
    """:return: all that is there for users, by module"""
    found: dict[int, FrontendName] = {}
    for module in _modules():
        for name in sorted(getattr(module, "__all__", vars(module))):
            value = getattr(module, name)
            is_own = hasattr(module, "__all__") or getattr(value, "__module__", "") == module.__name__
            if name.startswith("_") or not is_own or not (inspect.isfunction(value) or inspect.isclass(value)):
                continue
            shown = f"rf.{name}" if getattr(rf, name, None) is value else f"{module.__name__}.{name}"
            doc = inspect.cleandoc(value.__doc__ or "")
            found.setdefault(id(value), FrontendName(shown, module.__name__, _about(value, doc), doc))
    return tuple(found.values())


def by_module() -> dict[str, list[FrontendName]]:
    """:return: name of a module -> what is in it"""
    groups: dict[str, list[FrontendName]] = {}
    for entry in frontend_names():
        groups.setdefault(entry.module, []).append(entry)
    return groups


def title_of(module: str) -> str:
    """:return: what the module is about"""
    return first_sentence_of(importlib.import_module(module).__doc__ or "")


def frontend_text(width: int) -> str:
    """:return: all names, each with the first sentence of its documentation"""
    parts = []
    for module, names in by_module().items():
        table = rows_text(["name", "what it is"], [(x.name, x.about) for x in names], width)
        parts.append(f"{module}: {title_of(module)}\n\n{table}")
    return "\n\n".join(["`import returnn.frontend as rf`. --help NAME explains each.", *parts])


def _modules() -> Iterator[Any]:
    """:return: those that users import from, first the ones whose names `rf` has"""
    paths = [info.name for info in pkgutil.walk_packages(rf.__path__, f"{_ROOT}.") if "._" not in info.name]
    for path in sorted(paths, key=lambda path: (path.count("."), path)):
        try:
            yield importlib.import_module(path)
        except MissingPackageError:  # converts what only another package can load
            continue


def _about(value: Any, docstring: str) -> str:
    """:return: the first sentence; where the documentation begins with the arguments, what comes out, or else these"""
    text = re.split(r"^:\w+", docstring, maxsplit=1, flags=re.MULTILINE)[0].strip()
    returned = re.search(r"^:return: (.*?)(?=^:|\Z)", docstring, flags=re.MULTILINE | re.DOTALL)
    sentence = first_sentence_of(text or (returned[1] if returned else ""))
    sentence = sentence or f"Takes {', '.join(inspect.signature(value).parameters)}."
    return sentence[0].upper() + sentence[1:]
