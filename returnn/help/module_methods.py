"""How modules of `returnn.frontend` are called, and which methods they have, also those of their base classes."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import returnn.frontend as rf
from returnn.help.class_text import first_sentence_of, rows_text
from returnn.help.frontend_names import frontend_names
from returnn.util.python.optional_import import MissingPackageError

_ROOT = "returnn.frontend"


def full_name_in_frontend(name: str) -> str | None:
    """:return: of "rf.NAME", with the module that declares it, as others may have the name; None if it is another"""
    value = getattr(rf, name.removeprefix("rf."), None) if name.startswith("rf.") else None
    is_declared = inspect.isfunction(value) or inspect.isclass(value)
    return f"{value.__module__}.{value.__name__}" if value is not None and is_declared else None


def module_class(module: str, name: str) -> type[rf.Module] | None:
    """
    :param module: in which it is declared
    :param name: of a class
    :return: the class, if it is a module of the frontend
    """
    if not f"{module}.".startswith(f"{_ROOT}."):
        return None
    try:
        cls = getattr(importlib.import_module(module), name, None)
    except MissingPackageError:  # converts what only another package can load
        return None
    return cls if isinstance(cls, type) and issubclass(cls, rf.Module) and cls is not rf.Module else None


def calls_text(cls: type[rf.Module], width: int) -> str:
    """
    :param cls: a module
    :param width: of the text, in characters
    :return: arguments and result of a call, and the methods; "" if there are none
    """
    parts = []
    methods = dict(_methods_of(cls))
    call = methods.pop("__call__", None)
    if call is not None and inspect.getdoc(call) != inspect.getdoc(
        rf.Module.__call__
    ):  # others say that they have none
        documentation = textwrap.indent(inspect.getdoc(call) or "", "    ")
        parts.append(f"called as: module({_arguments_of(call)})\n\n{documentation}".rstrip())
    if methods:
        rows = [
            (f"{name}({_arguments_of(method)})", first_sentence_of(_purpose_of(method)))
            for name, method in sorted(methods.items())
        ]
        parts.append(rows_text(["method", f"what it does (--help {cls.__name__}.NAME)"], rows, width))
    return "\n\n".join(parts)


def module_method_text(name: str) -> str | None:
    """
    :param name: "rf.CrossAttention.transform_encoder", with or without what stands before the class
    :return: documentation of the method; None if there is no such module or method
    """
    owner, _, last = name.rpartition(".")
    class_name = owner.rpartition(".")[2]
    for entry in frontend_names():
        if entry.name.rpartition(".")[2] == class_name:
            value = getattr(importlib.import_module(entry.module), class_name)
            cls = module_class(value.__module__, class_name) if isinstance(value, type) else None
            method = dict(_methods_of(cls)).get(last) if cls is not None else None
            if method is not None:
                title = f"method {last!r} of the class {class_name!r} of {value.__module__}"
                return f"{title}\n\n{last}({_arguments_of(method)})\n\n{inspect.getdoc(method) or ''}".rstrip()
    return None


def _methods_of(cls: type[rf.Module]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """:return: by name, without those that all modules have"""
    for name in dict.fromkeys(name for base in cls.__mro__ for name in vars(base)):
        method = inspect.getattr_static(cls, name)
        method = method.__func__ if isinstance(method, (classmethod, staticmethod)) else method
        is_own = method is not inspect.getattr_static(rf.Module, name, None)
        if inspect.isfunction(method) and is_own and (name == "__call__" or not name.startswith("_")):
            yield name, method


def _arguments_of(method: Callable[..., Any]) -> str:
    """:return: as one writes them, without `self` and types"""
    signature = inspect.signature(method)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))[1:-1]


def _purpose_of(method: Callable[..., Any]) -> str:
    """:return: its documentation; where this begins with the arguments, what comes out"""
    text = inspect.getdoc(method) or ""
    before = text.partition("\n:")[0]
    if not before.startswith(":"):
        return before
    return text.partition(":return: ")[2].partition("\n:")[0]
