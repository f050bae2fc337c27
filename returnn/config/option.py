"""
`Option`: one option of the config, declared once, with its kind of value, its default, and a sentence of documentation.

    class TrainingOptions(OptionTable):
        num_epochs = integer(5, "The last epoch of the training.")

    config.options.num_epochs  # int: 5, if the config does not say anything else
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Generic, Protocol, TypeVar, overload

from returnn.config import option_kinds as kinds
from returnn.config.option_kinds import Kind
from returnn.util.errors import ConfigError, nearest_hint

T = TypeVar("T")
D = TypeVar("D")

_LONGEST_HINT = 300  # of a longer text, an error has the first sentence


class OptionSource(Protocol):
    """The part of a `Config` that is needed here."""

    def opt_typed_value(self, key: str, default: Any = None) -> Any:
        """:return: the value as the config has it"""


class OptionTable:
    """
    Declarations of options, as attributes of the class. The attributes of an instance are the values in one config.

    None in a config counts as not set.
    """

    def __init__(self, source: OptionSource) -> None:
        """:param source: the config"""
        self._source = source


class Option(Generic[T]):
    """A declaration. Its name is that of the attribute which holds it."""

    name: str = ""

    def __init__(
        self,
        kind: Kind[Any],
        default: T | Option[T],
        purpose: str,
        *,
        keys_of: str | None = None,
        no_keys: Collection[str] = (),
    ) -> None:
        """
        :param kind: of values
        :param default: if the config does not say anything; or the option which counts then
        :param purpose: a sentence
        :param keys_of: "module:NAME" of the class or function whose arguments are the keys, if the value is a dict
        :param no_keys: arguments of it that the dict cannot have
        """
        self.kind = kind
        self._default = default
        self.purpose = purpose
        self.keys_of = keys_of
        self.no_keys = no_keys

    def __set_name__(self, owner: type[OptionTable], name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<Option {self.name}: {self.kind.expected}, default {self.default_text}>"

    @overload
    def __get__(self, instance: None, owner: type[OptionTable]) -> Option[T]: ...

    @overload
    def __get__(self, instance: OptionTable, owner: type[OptionTable]) -> T: ...

    def __get__(self, instance: OptionTable | None, owner: type[OptionTable]) -> Option[T] | T:
        return self if instance is None else self.value_in(instance._source)

    @property
    def default(self) -> T:
        """What holds if no option is set at all."""
        return self._default.default if isinstance(self._default, Option) else self._default

    @property
    def falls_back_to(self) -> str | None:
        """The name of the option that counts if this one is not set."""
        return self._default.name if isinstance(self._default, Option) else None

    @property
    def default_text(self) -> str:
        """For people."""
        return f"as {self._default.name!r}" if isinstance(self._default, Option) else repr(self._default)

    def value_in(self, source: OptionSource) -> T:
        """
        :param source: the config
        :raises ConfigError: if the value in it is of another kind
        """
        value = source.opt_typed_value(self.name, None)
        if value is None:
            return self._default.value_in(source) if isinstance(self._default, Option) else self._default
        return self.convert(value)

    def convert(self, value: Any) -> T:
        """
        :param value: as a config has it
        :raises ConfigError: if it is of another kind
        """
        try:
            return self.kind.convert(value)  # type: ignore[no-any-return]
        except (ValueError, TypeError, OverflowError) as exc:
            raise ConfigError(self._complaint(value)) from exc

    def _complaint(self, value: Any) -> str:
        purpose = self.purpose
        if len(purpose) > _LONGEST_HINT:
            purpose = f"{purpose.partition('. ')[0]}. '--help {self.name}' says more."
        hint = f"{purpose} Default: {self.default_text}." if self.default not in (None, (), []) else purpose
        if self.kind.choices and isinstance(value, str):
            nearest = nearest_hint(value, self.kind.choices)
            hint = nearest if nearest.startswith("Did") else hint
        if callable(value):  # such as `from math import log`, or `load` for `custom_missing_load_func`
            hint += "\n  If it is for the config alone, give it another name."
        text = repr(value)
        text = text if len(text) <= 100 else f"{text[:97]}..."
        return f"option {self.name!r}: got {text}, but expected {self.kind.expected}.\n  {hint}"


def integer(default: D, purpose: str, *, minimum: int | None = None) -> Option[int | D]:
    """:return: declaration of an option whose values are whole numbers"""
    return Option(kinds.integer_kind(minimum), default, purpose)


def number(default: D, purpose: str, *, minimum: float | None = None) -> Option[float | D]:
    """:return: declaration of an option whose values are numbers"""
    return Option(kinds.number_kind(minimum), default, purpose)


def boolean(default: D, purpose: str) -> Option[bool | D]:
    """:return: declaration of an option that is True or False"""
    return Option(kinds.BOOLEAN, default, purpose)


def text(default: D, purpose: str) -> Option[str | D]:
    """:return: declaration of an option whose values are text"""
    return Option(kinds.TEXT, default, purpose)


def filename(default: D, purpose: str) -> Option[str | D]:
    """:return: declaration of an option whose values are names of files or folders"""
    return Option(kinds.FILENAME, default, purpose)


def choice(default: D, purpose: str, choices: tuple[str, ...]) -> Option[str | D]:
    """:return: declaration of an option whose values are some words"""
    return Option(kinds.choice_kind(*choices), default, purpose)


def texts(default: D, purpose: str) -> Option[list[str] | D]:
    """:return: declaration of an option whose values are lists of text"""
    return Option(kinds.TEXTS, default, purpose)


def auto_or_integer(purpose: str, *, minimum: int) -> Option[int | None]:
    """:return: declaration of an option whose values are whole numbers; None is "auto", the default"""
    return Option(kinds.auto_or_integer_kind(minimum), None, purpose)


def number_by_key(purpose: str) -> Option[Any]:
    """:return: declaration of an option that limits something, for all data or for each data key; None: no limit"""
    return Option(kinds.NUMBER_BY_KEY, None, purpose)


def function(purpose: str) -> Option[Callable[..., Any] | None]:
    """:return: declaration of an option that is a function"""
    return Option(kinds.FUNCTION, None, purpose)


def data(purpose: str) -> Option[Any]:
    """:return: declaration of an option that describes a data set"""
    return Option(kinds.DATA, None, purpose)


def same_as(other: Option[T], purpose: str) -> Option[T]:
    """:return: declaration of an option of the same kind as another one, which counts if this one is not set"""
    return Option(other.kind, other, purpose)
