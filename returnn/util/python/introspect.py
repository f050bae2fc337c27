"""Looks at functions, classes and the call stack."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, TypeVar

getargspec = inspect.getfullargspec
T = TypeVar("T")


def call_with_known(function: Callable[..., T], *args: Any, **offered: Any) -> T:
    """
    For what users define, and what has more arguments now than when they did.

    :return: of the call with `args`, and with those of `offered` that the function takes
    """
    params = inspect.signature(function).parameters
    if not any(param.kind is param.VAR_KEYWORD for param in params.values()):
        offered = {name: value for name, value in offered.items() if name in params}
    return function(*args, **offered)


def attr_chain(base: Any, attribs: str | Sequence[str]) -> Any:
    """:return: `base.a.b`, for the attributes ["a", "b"] or "a.b" """
    for name in attribs.split(".") if isinstance(attribs, str) else attribs:
        base = getattr(base, name)
    return base


def collect_class_init_kwargs(cls: type, only_with_default: bool = False) -> dict[str, Any] | list[str]:
    """
    :param cls: any class
    :param only_with_default: leaves out what has to be given
    :return: names of what the constructors of the class and its bases take, as far as they pass on their `**kwargs`;
        with `only_with_default` a dict with the defaults
    """
    params = _init_params(cls)
    if only_with_default:
        return {name: param.default for name, param in params.items() if param.default is not param.empty}
    return list(params)


def collect_mandatory_class_init_kwargs(cls: type) -> list[str]:
    """:return: names of the arguments without a default"""
    return [name for name, param in _init_params(cls).items() if param.default is param.empty]


def help_on_type_error_wrong_args(cls: type, kwargs: Mapping[str, Any] | Sequence[str]) -> str:
    """:return: what is missing and what is too much in these arguments for the constructor"""
    given = list(kwargs)
    params = _init_params(cls)
    missing = [name for name in collect_mandatory_class_init_kwargs(cls) if name not in given]
    unknown = [name for name in given if name not in params]
    return f"Missing: {', '.join(missing) or 'nothing'}. Unknown: {', '.join(unknown) or 'nothing'}."


def type_attrib_mro_chain(cls: type, attr_name: str) -> list[Any]:
    """:return: what the class and its bases, in this order, have under a name"""
    return [base.__dict__[attr_name] for base in cls.__mro__ if attr_name in base.__dict__]


def next_type_attrib_in_mro_chain(cls: type, attr_name: str, attr: Any) -> Any:
    """:return: what follows `attr` in `type_attrib_mro_chain`, as `super` would find it"""
    chain = type_attrib_mro_chain(cls, attr_name)
    return chain[chain.index(attr) + 1]


def simple_obj_repr(obj: Any) -> str:
    """:return: `Class(arg=value, ...)`, with the attributes that are named like the arguments of the constructor"""
    names = inspect.signature(type(obj)).parameters
    return (
        f"{type(obj).__name__}({', '.join(f'{name}={getattr(obj, name)!r}' for name in names if hasattr(obj, name))})"
    )


def try_get_stack_frame(depth: int = 1) -> FrameType | None:
    """:return: of the caller's caller, or further up; None if there is none"""
    try:
        return sys._getframe(depth + 1)
    except ValueError:
        return None


def try_get_caller_name(depth: int = 1, fallback: str | None = None) -> str | None:
    """:return: name of the function which called the caller"""
    frame = try_get_stack_frame(depth + 1)
    return fallback if frame is None else frame.f_code.co_name


def try_run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    catch_exc: type[BaseException] | tuple[type[BaseException], ...] = Exception,
    default: Any = None,
) -> Any:
    """:return: what the function returns, or the default if it raises one of these exceptions"""
    try:
        return func(*args, **(kwargs or {}))
    except catch_exc:
        return default


def obj_diff_list(self: Any, other: Any, *, name: str = "self") -> list[str]:
    """
    :param self: nested dicts, lists, or any objects with attributes
    :param other: to be compared with it
    :param name: of the object, in the lines
    :return: a line for each difference
    """
    return _diff(name, self, other)


def obj_diff_str(self: Any, other: Any, **kwargs: Any) -> str:
    """:return: `obj_diff_list` as text. See there for the arguments"""
    return "\n".join(obj_diff_list(self, other, **kwargs)) or "No diff."


def _diff(path: str, a: Any, b: Any) -> list[str]:
    if type(a) is not type(b):
        return [f"{path}: type {type(a).__name__} != {type(b).__name__}"]
    if isinstance(a, dict):
        return _diff_dicts(path, a, b, "[{!r}]")
    if isinstance(a, (list, tuple)):
        lines = [] if len(a) == len(b) else [f"{path}: length {len(a)} != {len(b)}"]
        pairs = enumerate(zip(a, b, strict=False))
        return lines + [line for i, (x, y) in pairs for line in _diff(f"{path}[{i}]", x, y)]
    if hasattr(a, "__dict__") and not callable(a):
        return _diff_dicts(path, vars(a), vars(b), ".{}")
    return [] if a == b else [f"{path}: {a!r} != {b!r}"]


def _diff_dicts(path: str, a: dict[Any, Any], b: dict[Any, Any], access: str) -> list[str]:
    lines = [f"{path}{access.format(key)}: is only in one" for key in sorted(a.keys() ^ b.keys(), key=repr)]
    return lines + [line for key in a if key in b for line in _diff(path + access.format(key), a[key], b[key])]


def _init_params(cls: type) -> dict[str, inspect.Parameter]:
    params: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        init = base.__dict__.get("__init__")
        if base is object or init is None:
            continue
        own = list(inspect.signature(init).parameters.values())[1:]
        for param in own:
            if param.kind in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY):
                params.setdefault(param.name, param)
        if not any(param.kind == param.VAR_KEYWORD for param in own):
            break
    return params
