"""
How code asks for an option.

The toolkit itself has declared its options, `config.options.num_epochs` (see `returnn.config.option`). Code of users
asks for any option by name, `config.int("num_words", 5)`: that is what the methods here are for.

An option of a Python or JSON config is *typed*: it has the value that the config gave. One of a key-value config is a
list of strings. The accessors hide the difference; each that converts names the option in its error.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

from returnn.config.option_kinds import expand_floats, expand_ints, to_int
from returnn.config.options import Options
from returnn.util.errors import ConfigError
from returnn.util.texts.bool_text import to_bool

T = TypeVar("T")
Types = type | tuple[type, ...]


class OptionAccess:
    """Access to `typed_dict` and `dict`. It remembers which options somebody asked for."""

    dict: builtins.dict[str, builtins.list[str]]
    typed_dict: builtins.dict[str, Any]
    options_read: set[str]

    @property
    def options(self) -> Options:
        """The values of all options that the toolkit has declared."""
        return Options(self)

    def has(self, key: str) -> builtins.bool:
        """:return: whether the option is set"""
        self.options_read.add(key)
        return key in self.typed_dict or key in self.dict

    def is_typed(self, key: str) -> builtins.bool:
        """:return: whether the option is set, and has a Python value"""
        self.options_read.add(key)
        return key in self.typed_dict

    def is_true(self, key: str, default: builtins.bool = False) -> builtins.bool:
        """:return: whether the value counts as true, as in an `if` of Python"""
        if self.is_typed(key) and not isinstance(self.typed_dict[key], str):
            return builtins.bool(self.typed_dict[key])
        return self.bool(key, default)

    def is_of_type(self, key: str, types: Types) -> builtins.bool:
        """:return: whether the option is typed and an instance of (one of) `types`"""
        return self.is_typed(key) and isinstance(self.typed_dict[key], types)

    def get_of_type(self, key: str, types: Types, default: Any = None) -> Any:
        """:return: the value if it `is_of_type`, otherwise the default"""
        return self.typed_dict[key] if self.is_of_type(key, types) else default

    def value(self, key: str, default: T, index: builtins.int | None = None, list_join_str: str = ",") -> str | T:
        """
        :param key: the option
        :param default: if it is not set, or None
        :param index: only this entry of a list
        :param list_join_str: between the entries of a list
        :return: as text
        """
        value = self.opt_typed_value(key, None)
        if value is None:
            return default
        if not isinstance(value, (list_type, tuple)):
            return str(value)
        return list_join_str.join(map(str, value)) if index is None else str(value[index])

    def typed_value(self, key: str, default: Any = None, index: builtins.int | None = None) -> Any:
        """
        :param key: the option
        :param default: if it is not set, or not typed
        :param index: only this entry of a list
        """
        if not self.is_typed(key):
            return default
        value = self.typed_dict[key]
        return value if index is None else value[index]

    def opt_typed_value(self, key: str, default: Any = None) -> Any:
        """:return: the typed value; if there is none the text, or the list of texts, or the default"""
        if self.is_typed(key):
            return self.typed_dict[key]
        if key not in self.dict:
            return default
        values = self.dict[key]
        return values[0] if len(values) == 1 else values

    def int(self, key: str, default: T, index: builtins.int = 0) -> builtins.int | T:
        """
        :param key: the option
        :param default: if it is not set, or None
        :param index: which entry, if it is a list
        :raises ConfigError: if it is no integer
        """
        return self._convert(key, default, index, to_int, "an integer")

    def float(self, key: str, default: T, index: builtins.int = 0) -> builtins.float | T:
        """
        :param key: the option
        :param default: if it is not set, or None
        :param index: which entry, if it is a list
        :raises ConfigError: if it is no number
        """
        return self._convert(key, default, index, float_type, "a number")

    def bool(self, key: str, default: T, index: builtins.int = 0) -> builtins.bool | T:
        """
        :param key: the option
        :param default: if it is not set, or None
        :param index: which entry, if it is a list
        :raises ConfigError: if it is no truth value
        """
        return self._convert(key, default, index, to_bool, "True or False")

    def bool_or_other(self, key: str, default: Any = None, index: builtins.int = 0) -> Any:
        """:return: a bool if the value can be seen as one, otherwise the value"""
        value = self.opt_typed_value(key, None)
        if value is None:
            return default
        if isinstance(value, (list_type, tuple)):
            value = value[index]
        try:
            return to_bool(value)
        except (ValueError, TypeError):
            return value

    def list(self, key: str, default: T = None) -> builtins.list[Any] | T:  # type: ignore[assignment]
        """:return: the values; a single one becomes a list of one"""
        value = self.opt_typed_value(key, None)
        if value is None:
            return default
        return list_type(value) if isinstance(value, (list_type, tuple)) else [value]

    def int_list(self, key: str, default: T = None) -> builtins.list[builtins.int] | T:  # type: ignore[assignment]
        """
        Like `list`. In text, `2-5` means 2, 3, 4, 5 and `7*3` means 7, 7, 7.

        :raises ConfigError: if an entry is no integer
        """
        values = self.list(key, None)
        if values is None:
            return default
        lists = [self._to(key, value, expand_ints, "a list of integers") for value in values]
        return list_type(chain.from_iterable(lists))

    def float_list(self, key: str, default: T = None) -> builtins.list[builtins.float] | T:  # type: ignore[assignment]
        """
        Like `list`. In text, `0.1*3` means 0.1, 0.1, 0.1.

        :raises ConfigError: if an entry is no number
        """
        values = self.list(key, None)
        if values is None:
            return default
        lists = [self._to(key, value, expand_floats, "a list of numbers") for value in values]
        return list_type(chain.from_iterable(lists))

    def int_pair(
        self, key: str, default: tuple[builtins.int, builtins.int] | None = None
    ) -> tuple[builtins.int, builtins.int] | None:
        """
        :return: two integers; a single one counts twice. In text they are `a:b`.
        :raises ConfigError: if there are more, or no integers
        """
        value = self.opt_typed_value(key, None)
        if value is None:
            return default
        if isinstance(value, str):
            value = value.split(":")
        values = list_type(value) if isinstance(value, (list_type, tuple)) else [value]
        if not 1 <= len(values) <= 2:
            raise _wrong_type(key, value, "one or two integers")
        first, second = (self._to(key, entry, to_int, "one or two integers") for entry in (values[0], values[-1]))
        return first, second

    def _convert(
        self, key: str, default: T, index: builtins.int, convert: Callable[[Any], Any], expected: str
    ) -> Any | T:
        value = self.opt_typed_value(key, None)
        if isinstance(value, (list_type, tuple)):
            if not -len(value) <= index < len(value):
                raise _wrong_type(key, value, f"{expected} at index {index}")
            value = value[index]
        return default if value is None else self._to(key, value, convert, expected)

    @staticmethod
    def _to(key: str, value: Any, convert: Callable[[Any], Any], expected: str) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError) as exc:
            raise _wrong_type(key, value, expected) from exc


# The class has methods of these names, which hide the builtins inside of it for type checkers and readers alike.
list_type = builtins.list
float_type = builtins.float


def _wrong_type(key: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(f"option {key!r}: got {value!r}, but expected {expected}.")
