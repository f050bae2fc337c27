"""Prints nested dicts and lists so that Python can read them back, and that two outputs can be compared by line."""

from __future__ import annotations

import sys
from io import StringIO
from typing import Any, TextIO

import numpy

from returnn.util.python.nested import is_namedtuple

_MAX_LINE = 80
_INDENT = "  "


def pprint(
    obj: Any,
    *,
    file: TextIO | None = None,
    prefix: str = "",
    postfix: str = "",
    line_prefix: str = "",
    line_postfix: str = "\n",
) -> None:
    """
    :param obj: nested containers
    :param file: stdout by default
    :param prefix: before the first line's content
    :param postfix: after the last line's content, e.g. a comma
    :param line_prefix: before each line
    :param line_postfix: after each line
    """
    file = sys.stdout if file is None else file
    text = _repr(obj)
    parts = _parts(obj)
    if parts is None or len(line_prefix + prefix + text + postfix) <= _MAX_LINE:
        file.write(line_prefix + prefix + text + postfix + line_postfix)
        return
    opening, entries, closing = parts
    file.write(line_prefix + prefix + opening + line_postfix)
    for key, value in entries:
        pprint(value, file=file, prefix=key, postfix=",", line_prefix=line_prefix + _INDENT, line_postfix=line_postfix)
    file.write(line_prefix + closing + postfix + line_postfix)


def pformat(obj: Any) -> str:
    """:return: what `pprint` prints"""
    stream = StringIO()
    pprint(obj, file=stream)
    return stream.getvalue()


def _parts(obj: Any) -> tuple[str, list[tuple[str, Any]], str] | None:
    """:return: opening bracket, entries with what stands before each, closing bracket; None if it is no container"""
    if isinstance(obj, dict):
        return "{", [(f"{_repr(key)}: ", value) for key, value in obj.items()], "}"
    if is_namedtuple(type(obj)):
        entries = list(zip((f"{name}=" for name in obj._fields), obj, strict=True))
        return f"{type(obj).__name__}(", entries, ")"
    if isinstance(obj, numpy.ndarray) and obj.ndim > 0:
        return "numpy.array([", [("", value) for value in obj], f"], dtype={str(obj.dtype)!r})"
    for type_, opening, closing in [(list, "[", "]"), (tuple, "(", ")"), (set, "{", "}")]:
        if isinstance(obj, type_) and obj:
            entries = [("", value) for value in (sorted(obj, key=repr) if type_ is set else obj)]
            return opening, entries, closing
    return None


def _repr(obj: Any) -> str:
    parts = _parts(obj)
    if parts is None:
        return repr(obj.item() if isinstance(obj, numpy.generic) else obj)
    opening, entries, closing = parts
    trailing = "," if isinstance(obj, tuple) and len(obj) == 1 and opening == "(" else ""
    return opening + ", ".join(key + _repr(value) for key, value in entries) + trailing + closing
