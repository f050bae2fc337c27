"""The option `dynamic_learning_rate`: what it has to be, on all backends."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from returnn.util.errors import ConfigError, check_known

Option: TypeAlias = "Mapping[str, float] | Callable[..., Any] | None"
_WHERE = "option 'dynamic_learning_rate'"
_FORM = "def dynamic_learning_rate(*, network, global_train_step, learning_rate, **kwargs)"
_ARGUMENTS = ("network", "global_train_step", "learning_rate")
_KEYS = ("interval", "decay")


def check_dynamic_learning_rate(option: Option, *, more_arguments: tuple[str, ...] = ()) -> None:
    """
    :param option: a function, or a dict: within each `interval` of steps, the factor of the learning rate falls from 1
        to `decay`, exponentially
    :param more_arguments: that the backend gives to the function
    :raises ConfigError: if the function cannot be called so, or the dict has other keys
    """
    if option is None:
        return
    if callable(option):
        try:
            inspect.signature(option).bind(**dict.fromkeys((*_ARGUMENTS, *more_arguments)))
        except TypeError as exc:
            raise ConfigError(f"{_WHERE}: the function cannot be called, {exc}.\n  It has to be as: {_FORM}.") from exc
        return
    for key in option:
        check_known("key", key, _KEYS, where=_WHERE)
    for key in _KEYS:
        if not isinstance(option.get(key), (int, float)) or option[key] <= 0:
            raise ConfigError(f"{_WHERE}: {key!r} is {option.get(key)!r}.\n  It has to be a number above 0.")
