"""Prints objects in one line, cut at some length, for output that people look at while something runs."""

from __future__ import annotations

import sys
from typing import Any

_options: dict[str, Any] = {"limit": None, "as_bytes": False}


def set_pretty_print_default_limit(limit: int | None) -> None:
    """:param limit: characters at most; None: all"""
    _options["limit"] = limit


def set_pretty_print_as_bytes(as_bytes: bool) -> None:
    """:param as_bytes: write UTF-8 to the buffer of the standard output, whatever its encoding is"""
    _options["as_bytes"] = as_bytes


def pretty_print(obj: Any, limit: int | None = None) -> None:
    """
    :param obj: to print
    :param limit: characters at most; default: see `set_pretty_print_default_limit`
    """
    limit = _options["limit"] if limit is None else limit
    text = repr(obj)
    if limit is not None and len(text) > limit:
        text = text[: max(limit - 3, 0)] + "..."
    if _options["as_bytes"]:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{text}\n".encode())
        sys.stdout.buffer.flush()
    else:
        print(text)
