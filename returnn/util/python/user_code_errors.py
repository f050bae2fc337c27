"""Exceptions out of code that a user wrote: a message of two lines that says where, instead of a long traceback."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterable

from returnn.util.python.attribute_hints import attribute_hint

Place = tuple[str, int, str]
_MAX_CHARS = 300
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # the toolkit
_NOT_OF_USERS = tuple(
    os.path.join(os.path.realpath(folder), "")
    for folder in {
        _PACKAGE_FOLDER,
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


def describe_exception(exc: BaseException, *, place: traceback.FrameSummary) -> str:
    """
    :param exc: any exception
    :param place: where it came from
    :return: two lines: kind and text of it, and the place
    """
    text = (str(exc).splitlines() or [""])[0][:_MAX_CHARS]
    hint = attribute_hint(exc)
    return (
        f"{type(exc).__name__}: {text}{'. ' if hint else ''}{hint}\n"
        f"  In {place.filename}, line {place.lineno}, {place.name}."
        " With 'log_verbosity = 5', the log has the traceback."
    )


def text_with_place(exc: BaseException) -> str:
    """
    :param exc: whose text says what is wrong
    :return: its text, and where in the code of a user it was, if it was there, and the text does not say so
    """
    text, place = str(exc), last_place_of_user(exc)
    if place is None or f"line {place.lineno}" in text:
        return text
    return f"{text}\n  In {place.filename}, line {place.lineno}, {place.name}."


def last_place(exc: BaseException) -> traceback.FrameSummary:
    """:return: where an exception was raised"""
    return traceback.extract_tb(exc.__traceback__)[-1]


def last_place_of_user(exc: BaseException) -> traceback.FrameSummary | None:
    """:return: the innermost place in the code of a user that an exception went through; None if there is none"""
    places = traceback.extract_tb(exc.__traceback__)
    return next((place for place in reversed(places) if is_code_of_user(place.filename)), None)


def innermost_of_user(places: Iterable[Place]) -> Place | None:
    """
    :param places: file, line and function, from the inside
    :return: the first one in the code of a user; None if there is none
    """
    return next((place for place in places if is_code_of_user(place[0])), None)


def is_code_of_user(filename: str) -> bool:
    """:return: whether the file is neither of the toolkit nor of an installed package"""
    return not filename.startswith("<") and not os.path.realpath(filename).startswith(_NOT_OF_USERS)
