"""
Which values an option can have: it follows from the annotation in the signature.

Only values that can be written in a config as such are checked: texts, numbers, lists, dicts. What else a config makes
(dims, arrays, functions, tensors), the layer has to look at itself. None stands for the default, if there is one.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import re
import sys
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from returnn.tensor import Dim
from returnn.util.errors import ConfigError, check_known

_OptionsT = TypeVar("_OptionsT")
_PLAIN = (str, bytes, numbers.Number, list, tuple, set, dict)
DTYPES = (
    "bool",
    "string",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
_NAMES = {
    "LayerBase": "the name of a layer",
    "Dim": "a dim",
    "Callable": "a function",
    "Mapping": "a dict",
    "dict": "a dict",
    "Sequence": "a list",
    "list": "a list",
    "tuple": "a tuple",
    "str": "a text",
    "bool": "True or False",
    "int": "an integer",
    "float": "a number",
}


def check_type(option: str, value: Any, annotation: Any, *, where: str, meaning: str = "") -> None:
    """
    :param option: its name
    :param value: in the config, with layers in place of their names
    :param annotation: of the option, see `annotation_of`
    :param where: how the message begins
    :param meaning: what the option is for, as a hint
    :raises ConfigError: if the option cannot have this value
    """
    if fits(value, annotation):
        return
    hint = f"\n  {option}: {meaning}" if meaning else ""
    raise ConfigError(f"{where}: option {option!r} has to be {_describe(annotation)}, not {_short(value)}.{hint}")


def options_as(cls: type[_OptionsT], given: Mapping[str, Any], *, where: str) -> _OptionsT:
    """
    :param cls: a dataclass, with the keys of an option
    :param given: in the config
    :param where: how messages begin
    :return: the dataclass with these values
    :raises ConfigError: if there is no such key, or it cannot have this value
    """
    annotations, meanings = get_type_hints(cls), params_in_docstring(cls)
    for key, value in given.items():
        check_known("key", key, annotations, where=where)
        check_type(key, value, annotations[key], where=where, meaning=meanings.get(key, ""))
    return cls(**given)


@functools.cache
def params_in_docstring(function: Callable[..., Any]) -> Mapping[str, str]:
    """:return: what the docstring says about each parameter, on one line"""
    params: dict[str, str] = {}
    for part in re.split(r"\n\s*:(?=\w)", f"\n{function.__doc__ or ''}")[1:]:
        if match := re.match(r"param (\w+):(.*)", part, re.DOTALL):
            params[match[1]] = " ".join(match[2].split())
    return params


@functools.cache
def annotation_of(function: Callable[..., Any], parameter: str) -> Any:
    """:return: annotation of a parameter as an object; `Any` if there is none, or none that can be evaluated"""
    annotation = inspect.signature(function).parameters[parameter].annotation
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    module = vars(sys.modules[function.__module__])
    # Some names are only imported for type checkers. A type of its own stands for a layer, which is no plain value.
    try:
        return eval(annotation, {**module, "LayerBase": _Layer, "Dim": Dim})
    except NameError:
        return Any


def fits(value: Any, annotation: Any) -> bool:
    """:return: whether the value can be meant for this annotation"""
    if value is None or annotation is Any or not isinstance(value, _PLAIN):
        return True
    origin = get_origin(annotation) or annotation
    arguments = get_args(annotation)
    if origin in (Union, types.UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if isinstance(origin, TypeVar) or not isinstance(origin, type):
        return True
    if issubclass(origin, dict | Mapping):
        return isinstance(value, dict) and (not arguments or all(fits(v, arguments[1]) for v in value.values()))
    if origin in (bool, int, float):
        return _fits_number(value, origin)
    if issubclass(origin, str):
        return isinstance(value, str)
    if origin in (list, tuple, set) or issubclass(origin, Sequence):
        return isinstance(value, (list, tuple, set)) and _all_fit(value, origin, arguments)
    return isinstance(value, origin)


def allows_none(annotation: Any) -> bool:
    """:return: whether None is among the values"""
    return annotation is Any or annotation is None or type(None) in get_args(annotation)


class _Layer:
    """Stands for `LayerBase` in annotations."""


def _fits_number(value: Any, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool) or (isinstance(value, int) and value in (0, 1))
    return isinstance(value, numbers.Integral if kind is int else numbers.Real)


def _all_fit(values: Collection[Any], origin: type, arguments: tuple[Any, ...]) -> bool:
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return len(values) == len(arguments) and all(map(fits, values, arguments))
    return not arguments or all(fits(value, arguments[0]) for value in values)


def _describe(annotation: Any) -> str:
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    names = [_describe_one(part) for part in parts if part is not type(None)]
    return " or ".join(dict.fromkeys(name for name in names if name))


def _describe_one(annotation: Any) -> str:
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in (type, type(None)) or origin is type:
        return ""
    name = "LayerBase" if origin is _Layer else getattr(origin, "__name__", str(origin))
    text = _NAMES.get(name, name)
    if isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str and arguments:
        inner = _describe(arguments[0])
        return f"{text} ({inner} each)" if inner and arguments[0] is not Any else text
    return text


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
