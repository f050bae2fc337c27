"""Objects that are there once, and stay so when they are pickled."""

from __future__ import annotations

import sys
from typing import Any


class Entity:
    """A constant, equal only to itself. Pickling yields the same object again if it has a global name."""

    def __init__(self, name: str | None = None, *, global_base: Any = None, global_name: str | None = None):
        """
        :param name: for people
        :param global_base: the module or class which has it, or the globals of the module
        :param global_name: its name there, e.g. "MyConstant" or "MyClass.Constant"
        """
        self.name = name or global_name
        self.global_base = global_base
        self.global_name = global_name

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __getstate__(self) -> Any:
        raise TypeError(f"cannot pickle {self!r}, it has no global name")

    def __reduce__(self) -> Any:
        if self.global_name is None:
            return self.__getstate__()
        base = self.global_base
        module = base["__name__"] if isinstance(base, dict) else getattr(base, "__module__", None) or base.__name__
        qualifier = f"{base.__qualname__}." if isinstance(base, type) else ""
        return _get_entity, (module, qualifier + self.global_name)


def _get_entity(module: str, name: str) -> Any:
    obj: Any = sys.modules[module]
    for part in name.split("."):
        obj = getattr(obj, part)
    return obj
