"""
What is no tensor, and was given for one.

Functions of the frontend do not look at the types of their arguments, which would cost time with each operation. When
one of them fails, the frames of the exception still have the arguments, and the signatures say what they had to be.
"""

from __future__ import annotations

import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args, get_origin

import numpy

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.errors import UserError
from returnn.util.texts.counted import counted

_CHECKED = (Tensor, Dim, rf.State)  # an argument that has to be one of these, and is something else, is wrong
_OUR_MODULES = ("returnn.frontend", "returnn.tensor")
_OF_NUMBERS = (int, float, complex, bool, numpy.number, numpy.ndarray)  # arrays of a number, that is
_NUMBERS = {int: numbers.Integral, float: numbers.Real, complex: numbers.Complex}


def wrong_argument_error(exc: Exception) -> UserError | None:
    """
    :param exc: of code that calls functions and modules of the frontend
    :return: says which argument of which function is none of what it has to be, with the traceback of `exc`; None if
        all are right
    """
    for frame in _frames(exc.__traceback__):
        is_ours = frame.f_globals.get("__name__", "").startswith(_OUR_MODULES)  # users can annotate as they like
        function = _function_of(frame) if is_ours else None
        for name, value, annotation in _arguments(frame, function) if function is not None else ():
            if not _fits(value, annotation):
                where = f"{_name_of(frame, function)}: argument {name!r}"
                text = f"{where} has to be {_wanted(annotation)}, not {_got(value)}.{_hint(value)}"
                return UserError(text).with_traceback(exc.__traceback__)
    return None


def _frames(traceback: types.TracebackType | None) -> Iterator[types.FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _function_of(frame: types.FrameType) -> Callable[..., Any] | None:
    """:return: the function or method that runs in there, None if it is not found by its name"""
    name = frame.f_code.co_name
    holders = [frame.f_globals.get(name)]
    first = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
    kind = first if isinstance(first, type) else type(first)
    holders += [vars(base).get(name) for base in kind.__mro__]
    for holder in holders:
        function = inspect.unwrap(getattr(holder, "__func__", holder)) if callable(holder) else None
        if getattr(function, "__code__", None) is frame.f_code:
            return function
    return None


def _arguments(frame: types.FrameType, function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    """:return: name, value and annotation of each argument that has one, and has not its default"""
    try:
        annotations = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):  # names that are there for type checkers alone
        return
    for param in inspect.signature(function).parameters.values():
        if param.name in annotations and param.name in frame.f_locals:
            value = frame.f_locals[param.name]
            if param.kind is param.VAR_POSITIONAL:
                yield from ((param.name, part, annotations[param.name]) for part in value)
            elif param.kind is not param.VAR_KEYWORD and value is not param.default:
                yield param.name, value, annotations[param.name]


def _parts(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (typing.Union, types.UnionType) else (annotation,)


def _fits(value: Any, annotation: Any) -> bool:
    parts = _parts(annotation)
    if get_origin(annotation) is tuple and isinstance(value, tuple) and len(value) == len(get_args(annotation)):
        return all(map(_fits, value, get_args(annotation)))
    is_known = all(isinstance(get_origin(part) or part, type) and not isinstance(part, TypeVar) for part in parts)
    if not is_known or Any in parts or not any(isinstance(part, type) and issubclass(part, _CHECKED) for part in parts):
        return True
    kinds = tuple(get_origin(part) or part for part in parts)
    return isinstance(value, (*kinds, *(_NUMBERS[kind] for kind in kinds if kind in _NUMBERS)))


def _name_of(frame: types.FrameType, function: Callable[..., Any]) -> str:
    name = function.__qualname__
    if name.endswith(".__call__"):
        name = type(frame.f_locals[frame.f_code.co_varnames[0]]).__name__
    return f"rf.{name}" if getattr(rf, name, None) is not None and function.__module__.startswith(rf.__name__) else name


def _wanted(annotation: Any) -> str:
    parts = get_args(annotation) if get_origin(annotation) is tuple else _parts(annotation)
    kinds = [get_origin(part) or part for part in parts]
    names = ["number" if kind in _OF_NUMBERS else kind.__name__ for kind in kinds if kind is not type(None)]
    names = list(dict.fromkeys(names))
    return f"a tuple of {' and '.join(names)}" if get_origin(annotation) is tuple else f"a {' or '.join(names)}"


def _got(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        kinds = ", ".join(type(part).__name__ for part in value[:3]) + ", ..." * (len(value) > 3)
        return f"a {type(value).__name__} of {counted(len(value), 'part')} ({kinds})"
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    return f"{name} {value!r}" if isinstance(value, (str, numbers.Number)) else f"a {name}"


def _hint(value: Any) -> str:
    if value is None:
        return "\n  A function without 'return' gives None."
    if isinstance(value, (tuple, list)) and any(isinstance(part, Tensor) for part in value):
        names = ", ".join(["x", "_", "_"][: len(value)]) if len(value) <= 3 else "x, *_"
        return f"\n  What gives several results, as rf.LSTM does, is unpacked: {names} = ..."
    if isinstance(value, numpy.ndarray) or (hasattr(value, "shape") and hasattr(value, "dtype")):
        return "\n  rf.convert_to_tensor(x, dims=[...]) makes a tensor of it."
    return ""
