"""Small things about text."""

from __future__ import annotations

import contextlib
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
    with contextlib.suppress(ValueError):
        float(s)
        return True
    return False


def camel_case_to_snake_case(name: str) -> str:
    """
    Each word of the name begins with an upper case letter, and several of these in a row are one word.

    :return: e.g. "rec_step_info" for "RecStepInfo", "get_ctc_fsa" for "getCTCFsa"
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[^_])(?=[A-Z][a-z])", "_", name).lower()


def escape_c_str(s: str) -> str:
    """:return: as a string literal of C"""
    escaped = s.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
