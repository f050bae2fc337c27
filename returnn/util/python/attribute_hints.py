"""What somebody may have meant who asked for an attribute or a module that is not there."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import Any

_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # the toolkit
_MIN_SIMILARITY = 0.7
_NAMED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def attribute_hint(exc: BaseException) -> str:
    """
    :param exc: any exception
    :return: a sentence, if it is about an attribute and something is near, a module, or an argument; otherwise nothing
    """
    if isinstance(exc, ModuleNotFoundError) and exc.name and exc.name.partition(".")[0] not in sys.modules:
        package = exc.name.partition(".")[0]
        return f"A package is installed by `pip install {package}`; the folder of a file has to be in `sys.path`."
    if isinstance(exc, TypeError):
        return _argument_hint(exc)
    if not isinstance(exc, AttributeError) or not isinstance(exc.name, str) or exc.obj is None:
        return ""
    name, obj = exc.name, exc.obj
    found = next(_modules_with(name, obj), None) if isinstance(obj, ModuleType) else None
    if found is not None:
        return f"It is in {found}: from {found} import {name}"
    names = [known for known in dir(obj) if not known.startswith("_")]
    nearest = get_close_matches(name, names, cutoff=_MIN_SIMILARITY)
    return f"Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""


def _argument_hint(exc: TypeError) -> str:
    """:return: for a keyword argument that there is not: a near one, or all"""
    found = re.match(r"(?:\w+\.)*?(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'", str(exc))
    if found is None or exc.__traceback__ is None:
        return ""
    name, argument = found.groups()
    frames = [frame for frame, _ in traceback.walk_tb(exc.__traceback__)]
    spaces = (space for frame in reversed(frames) for space in _names_known_in(frame.f_globals))
    function = next((space[name] for space in spaces if callable(space.get(name))), None)
    if function is None:
        return ""
    try:
        known = [param.name for param in inspect.signature(function).parameters.values() if param.kind in _NAMED]
    except (TypeError, ValueError):  # some function of C
        return ""
    nearest = get_close_matches(argument, known)
    return f"Did you mean {' or '.join(map(repr, nearest))}?" if nearest else f"Possible: {', '.join(known)}."


def _names_known_in(module: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield module
    yield from (vars(value) for value in module.values() if isinstance(value, ModuleType))


def _modules_with(name: str, package: ModuleType) -> Iterator[str]:
    """:return: modules below a package of the toolkit which define a class or function; none of them is imported"""
    definition = re.compile(rf"^(class|def) {re.escape(name)}\b", re.MULTILINE)
    for folder in getattr(package, "__path__", ()):
        if not os.path.realpath(folder).startswith(_PACKAGE_FOLDER):
            continue
        for path, folders, files in os.walk(folder):
            folders[:] = sorted(entry for entry in folders if not entry.startswith("_"))
            for file in sorted(entry for entry in files if entry.endswith(".py") and not entry.startswith("_")):
                with open(os.path.join(path, file), encoding="utf8") as source:
                    if definition.search(source.read()):
                        parts = os.path.relpath(os.path.join(path, file[: -len(".py")]), folder).split(os.sep)
                        yield ".".join([package.__name__, *parts])
