"""Optimizers by the name that a config gives, and their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from returnn.tf.optimizers import adam, adaptive, gradient_descent, keras_adam, keras_others
from returnn.util.errors import ConfigError, check_known

_SUFFIX = "optimizer"
_classes: dict[str, type] = {}


def known_optimizers() -> list[str]:
    """:return: all names of optimizers"""
    return sorted(_classes)


def get_optimizer_class(class_name: str | type | Callable) -> type | Callable:
    """
    :param class_name: e.g. "adam" or "AdamOptimizer", in upper or lower case; or the class itself
    :raises ConfigError: if there is none of that name
    """
    if not isinstance(class_name, str):
        if callable(class_name):
            return class_name
        raise ConfigError(f"optimizer: the class is {class_name!r}.\n  It has to be a name such as 'adam', or a class.")
    check_known("optimizer", class_name.lower(), _classes, where="config")
    return _classes[class_name.lower()]


def register_optimizer_class(cls: type, name: str | None = None) -> None:
    """
    :param cls: one of `Optimizer` here, or of `tf.compat.v1.train.Optimizer`
    :param name: for the config; by default the name of the class. With the suffix "Optimizer" it is known without, too
    :raises ConfigError: if the name belongs to another class
    """
    name = (name or cls.__name__).lower()
    for alias in {name, name.removesuffix(_SUFFIX)}:
        if _classes.setdefault(alias, cls) is not cls:
            raise ConfigError(f"optimizer {alias!r} is already there: {_classes[alias].__name__}.")


def optimizer_options(cls: type | Callable) -> dict[str, inspect.Parameter]:
    """:return: name -> parameter of the constructor, and of those that it passes `**kwargs` on to"""
    options: dict[str, inspect.Parameter] = {}
    functions = [base.__init__ for base in cls.__mro__ if "__init__" in vars(base)] if isinstance(cls, type) else [cls]
    for function in functions:
        parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) and parameter.name != "self":
                options.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return options


def _register_all() -> None:
    for module in (gradient_descent, adaptive, adam, keras_adam, keras_others):
        for cls in vars(module).values():
            for name in vars(cls).get("optimizer_names", ()) if isinstance(cls, type) else ():
                register_optimizer_class(cls, name)


_register_all()
