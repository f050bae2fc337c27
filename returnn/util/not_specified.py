"""A default value which says that an argument was not given, where None is a value of its own."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


class NotSpecified:
    """The class itself is the value: `def func(arg: int | None | type[NotSpecified] = NotSpecified)`."""

    def __init__(self) -> None:
        raise TypeError("NotSpecified is used as a value itself, it has no instances")

    @classmethod
    def resolve(cls, value: Any, default: T) -> Any | T:
        """:return: `value`, or `default` if that is not specified"""
        return default if value is cls else value
