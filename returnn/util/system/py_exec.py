"""Runs Python source that is not a module, so that a traceback can show its lines."""

from __future__ import annotations

import linecache
from typing import Any


def custom_exec(
    source: str, source_filename: str, user_ns: dict[str, Any], user_global_ns: dict[str, Any] | None = None
) -> None:
    """
    :param source: Python code
    :param source_filename: where it comes from; a traceback shows this name
    :param user_ns: gets the names which the code defines
    :param user_global_ns: its globals; `user_ns` by default
    """
    if not source.endswith("\n"):
        source += "\n"
    lines = source.splitlines(keepends=True)
    linecache.cache[source_filename] = (len(source), None, lines, source_filename)
    code = compile(source, source_filename, "exec")
    exec(code, user_ns if user_global_ns is None else user_global_ns, user_ns)
