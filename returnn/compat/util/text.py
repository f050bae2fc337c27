"""Small things about text."""

from __future__ import annotations

import re

PY3 = True  # configs that also ran on Python 2 ask for it


def as_str(s: str | bytes) -> str:
    """:return: text, from text or UTF-8"""
    return s.decode("utf8") if isinstance(s, bytes) else s


# On Python 2, text was of two types. Configs from then still call these.
unicode_to_str = as_str
py2_utf8_str_to_unicode = as_str


def str_is_number(s: str) -> bool:
    """:return: whether `float` can read it"""
    try:
        float(s)
    except ValueError:
        return False
    return True


def camel_case_to_snake_case(name: str) -> str:
    """:return: e.g. "rec_step_info" for "RecStepInfo" """
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def escape_c_str(s: str) -> str:
    """:return: as a string literal of C"""
    escaped = s.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
