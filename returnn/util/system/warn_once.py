"""Warnings that repeat themselves are not read, so each text comes once per process."""

from __future__ import annotations

import logging

_logger = logging.getLogger("returnn")  # `returnn.log` decides where it goes; ERROR is the level of `log.v2`
_shown: set[str] = set()


def warn_once(text: str, *, prefix: str = "WARNING:", extra_text: str | None = None) -> None:
    """
    :param text: is shown once in this process
    :param prefix: before it
    :param extra_text: a further line
    """
    if text in _shown:
        return
    _shown.add(text)
    for line in [f"{prefix} {text}", *([extra_text] if extra_text else [])]:
        _logger.error("%s", line)


def warn_deprecated(text: str, *, behavior_version: int | None = None) -> None:
    """
    :param text: what is old, and what to use now
    :param behavior_version: from which on it is an error
    """
    extra = None if behavior_version is None else f"This is an error since behavior_version {behavior_version}."
    warn_once(text, prefix="DEPRECATION WARNING:", extra_text=extra)


def num_shown() -> int:
    """:return: how many warnings came so far in this process"""
    return len(_shown)


def forget_shown() -> None:
    """Each warning can come once more."""
    _shown.clear()
