"""Modules and other objects from dicts, as configs have them: `{"class": "rf.Linear", "out_dim": ...}`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from returnn.tensor._frontend import frontend
from returnn.util.errors import ConfigError, nearest_hint


def build_from_dict(d: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    """
    :param d: under "class", the name of a class or function, such as "rf.relu" or "my_package.models.Encoder"; or
        itself. The rest are its options.
    :param args: further arguments
    :param kwargs: further options; `d` wins
    :return: an object of the class; a function with its options, if there are any
    :raises ConfigError: if the name is missing or not found
    """
    if "class" not in d:
        raise ConfigError(f"build_from_dict: the key 'class' is missing.\n  There are: {', '.join(map(repr, d))}.")
    name = d["class"]
    cls = _resolve(name) if isinstance(name, str) else name
    options = {**kwargs, **{key: value for key, value in d.items() if key != "class"}}
    if isinstance(cls, FunctionType):
        return _function_with_options(cls, args, options)
    return cls(*args, **options)


def build_dict(cls: type | Callable[..., Any], **kwargs: Any) -> dict[str, Any]:
    """:return: dict from which `build_from_dict` makes an object of the class, with these options"""
    return {"class": _name_of(cls), **kwargs}


def _function_with_options(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> Callable[..., Any]:
    if not args and not options:
        return function

    def call(*more_args: Any, **more_options: Any) -> Any:
        return function(*more_args, *args, **{**options, **more_options})

    call.__name__ = call.__qualname__ = function.__name__
    return call


def _name_of(cls: Any) -> str:
    name = cls.__qualname__
    if getattr(frontend(), name, None) is cls:
        return f"rf.{name}"
    return f"{cls.__module__}.{name}"


def _resolve(name: str) -> Any:
    if name.startswith("rf."):
        value: Any = frontend()
        path = name.split(".")[1:]
    else:
        value, path = _import_longest(name)
    for attribute in path:
        if not hasattr(value, attribute) and not _import_submodule(value, attribute):
            known = [key for key in dir(value) if _belongs_to(value, key)]
            raise ConfigError(
                f"build_from_dict: there is no {name!r}: {value.__name__} has no {attribute!r}.\n"
                f"  {_short_hint(attribute, known)}"
            )
        value = getattr(value, attribute)
    return value


def _import_submodule(package: Any, name: str) -> bool:
    """:return: whether it is a module of the package, such as `rf.encoder.conformer`, and is an attribute of it now"""
    if not hasattr(package, "__path__"):
        return False
    module = f"{package.__name__}.{name}"
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name != module:
            raise
        return False
    return True


def _import_longest(name: str) -> tuple[Any, list[str]]:
    """:return: the module in a dotted name, and the attributes behind it"""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:end])
        try:
            return importlib.import_module(module), parts[end:]
        except ModuleNotFoundError as exc:
            if exc.name is None or not f"{module}.".startswith(f"{exc.name}."):
                raise
    raise ConfigError(
        f"build_from_dict: there is no class {name!r}.\n"
        f"  Write it with its module, or as 'rf.{name}' for the frontend's."
    )


def _belongs_to(module: Any, name: str) -> bool:
    """:return: whether it is no helper from another package, which the module only uses"""
    package = getattr(getattr(module, name), "__module__", None) or ""
    return not name.startswith("_") and package.split(".")[0] == module.__name__.split(".")[0]


def _short_hint(name: str, known: list[str]) -> str:
    hint = nearest_hint(name, known)
    return hint if hint.startswith("Did you mean") else "Nothing there has a name like this."


__all__ = ["build_dict", "build_from_dict"]
