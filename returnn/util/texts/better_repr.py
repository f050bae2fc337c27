"""`repr` for files that people read, and that Python can read back: one entry of a dict or list per line, sorted."""

from __future__ import annotations

from typing import Any


def better_repr(o: Any) -> str:
    """
    :return: a Python expression. Floats of numpy are plain numbers, dicts are sorted by key and have a line per entry.
    """
    if isinstance(o, dict):
        items = sorted(o.items(), key=lambda item: (str(type(item[0])), item[0]))
        return "{\n" + "".join(f"{better_repr(key)}: {better_repr(value)},\n" for key, value in items) + "}"
    if isinstance(o, list):
        return "[\n" + "".join(f"{better_repr(value)},\n" for value in o) + "]" if o else "[]"
    if isinstance(o, tuple):
        return "(" + ", ".join(map(better_repr, o)) + ("," if len(o) == 1 else "") + ")"
    if isinstance(o, set):
        return "{\n" + "".join(f"{text},\n" for text in sorted(map(better_repr, o))) + "}" if o else "set()"
    if hasattr(o, "dtype") and getattr(o, "ndim", None) == 0:
        return better_repr(o.item())
    return repr(o)
