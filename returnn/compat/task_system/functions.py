"""What functions, dicts of modules and objects consist of, as values that can be sent, and how to make them again."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy

CellType = types.CellType
ModuleType = types.ModuleType
DictType = dict
NewStyleClass = type

_NOT_SET = object()


def makeFuncCell(value: Any) -> types.CellType:
    """:return: a cell of a closure"""
    return types.CellType(value)


def get_func_closure(f: Any) -> tuple[types.CellType, ...] | None:
    """:return: the cells of a function, None if it has no closure"""
    return f.__closure__


def get_func_tuple(f: types.FunctionType) -> tuple[Any, ...]:
    """:return: the arguments of `types.FunctionType` that make the function again"""
    return f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__


def attrChain(base: Any, *attribs: str, **kwargs: Any) -> Any:
    """
    :param base: an object
    :param attribs: names
    :param kwargs: `default`: the result if there is no such attribute
    :return: the attribute of the attribute ... of the object
    """
    default = kwargs.pop("default", _NOT_SET)
    if kwargs:
        raise TypeError(f"attrChain: there is no argument {next(iter(kwargs))!r}")
    try:
        return reduce(getattr, attribs, base)
    except AttributeError:
        if default is _NOT_SET:
            raise
        return default


def funcCall(attrChainArgs: Sequence[Any], args: Sequence[Any] = ()) -> Any:
    """
    :param attrChainArgs: an object, and names: where the function is
    :param args: its arguments
    :return: what the function returns
    """
    return attrChain(*attrChainArgs)(*args)


def getModuleDict(modname: str, path: Sequence[str] | None = None) -> dict[str, Any]:
    """
    :param modname: name of a module
    :param path: folders where it is looked for, too
    :return: the names in it
    """
    for folder in path or ():
        if folder not in sys.path:
            sys.path.append(folder)
    return vars(importlib.import_module(modname))


def getModNameForModDict(obj: Mapping[str, Any]) -> str | None:
    """:return: name of the module whose names these are; None if it is a dict of another kind"""
    name = obj.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if module is not None and vars(module) is obj else None


def getNormalDict(d: Mapping[str, Any]) -> dict[str, Any]:
    """:return: the dict of a class as plain dict, without what each class has anyway"""
    return {key: value for key, value in d.items() if key not in ("__dict__", "__weakref__")}


def assign_obj_attribs(obj: Any, d: Mapping[str, Any]) -> Any:
    """
    :param obj: object
    :param d: its attributes
    :return: the object
    """
    for name, value in d.items():
        setattr(obj, name, value)
    return obj


def make_numpy_ndarray_fromstring(s: bytes, dtype: Any, shape: Sequence[int]) -> numpy.ndarray:
    """
    :param s: what `tobytes` gave
    :param dtype: of the array
    :param shape: of the array
    :return: the array, which can be written to
    """
    return numpy.frombuffer(s, dtype=dtype).reshape(shape).copy()


def used_names(code: types.CodeType) -> set[str]:
    """:return: the global names which some code uses, or functions inside of it"""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(used_names, inner))
