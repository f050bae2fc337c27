"""What happens around the first import of a module, by whomever it is imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

Context = Callable[[], AbstractContextManager[None]]


def import_within(module: str, context: Context) -> None:
    """
    From now on, the module is imported within the context. Nothing happens if it is there already.

    :param module: name of a top-level module
    :param context: function; once, however often it is given
    """
    finder = _Finder(module, context)
    if module not in sys.modules and finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module where the others do."""

    def __init__(self, module: str, context: Context) -> None:
        self._key = module, context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Finder) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        module, context = self._key
        if fullname != module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, context)
        return spec


class _Loader(importlib.abc.Loader):
    """Hands everything to another loader."""

    def __init__(self, loader: Any, context: Context) -> None:
        self._loader = loader
        self._context = context

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader  # nobody else has to know about this one
        with self._context():
            self._loader.exec_module(module)
