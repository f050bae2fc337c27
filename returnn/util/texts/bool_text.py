"""Truth values as people write them."""

from __future__ import annotations

from typing import Any

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "none", "")


def to_bool(v: Any) -> bool:
    """
    :param v: number, bool, or text like "yes" and "off"
    :raises ValueError: if it is none of these
    """
    if isinstance(v, str):
        text = v.strip().lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
    elif v in (0, 1):
        return bool(v)
    raise ValueError(f"to_bool: {v!r} is no truth value")
