"""Which optimizer a config asks for: `optimizer = {"class": "adam", ...}`, or the older `adam = True` and the like."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from returnn.config import Config
from returnn.tf.optimizers.base import Number
from returnn.tf.optimizers.registry import get_optimizer_class, optimizer_options
from returnn.util.errors import ConfigError, check_known

_OLD_FLAGS = ("adam", "nadam", "adadelta", "adagrad")


@dataclass(frozen=True)
class OptimizerChoice:
    """Class and options of an optimizer. Equal choices share one optimizer."""

    factory: type | Callable
    fingerprint: str
    learning_rate_multiplier: float = 1.0
    options: Mapping[str, object] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{getattr(self.factory, '__name__', self.factory)}({options})"

    def create(self, learning_rate: Number) -> object:
        """:return: the optimizer"""
        known = optimizer_options(self.factory)
        if self.learning_rate_multiplier != 1.0:
            learning_rate = self.learning_rate_multiplier * learning_rate
        given = {"learning_rate": learning_rate} if "learning_rate" in known else {}
        return self.factory(**given, **self.options)


def choose_optimizer(config: Config, spec: object = None, *, where: str = "config") -> OptimizerChoice:
    """
    :param config: for defaults: `optimizer_epsilon`, `optimizer_use_locking`, `momentum`
    :param spec: name, class, or dict with "class" and options; None: that of the config
    :param where: for error messages
    :raises ConfigError: if there is no such optimizer or option
    """
    if spec is None:
        spec = config.options.optimizer or _spec_of_old_flags(config)
    where = f"{where}: optimizer"
    options = _as_dict(spec, where=where)
    name = options.pop("class")
    factory = get_optimizer_class(name)
    _check_class(factory, where=where)
    multiplier = options.pop("learning_rate_multiplier", 1.0)
    if "learning_rate" in options:
        raise ConfigError(
            f"{where}: option 'learning_rate' is not for here, as it changes during training.\n"
            "  Set 'learning_rate' of the config, and 'learning_rate_multiplier' here."
        )
    known = optimizer_options(factory)
    for option in options:
        check_known("option", option, [*known, "learning_rate_multiplier"], where=f"{where} {_name_of(name)!r}")
    options = {**_implicit_options(config, known, name), **options}
    _check_complete(options, known, where=f"{where} {_name_of(name)!r}")
    return OptimizerChoice(factory, f"{_name_of(name)} {sorted(options.items())!r}", multiplier, options)


def _name_of(name: object) -> str:
    return name if isinstance(name, str) else getattr(name, "__name__", repr(name))


def _as_dict(spec: object, *, where: str) -> dict[str, object]:
    if not isinstance(spec, Mapping):
        return {"class": spec}
    if "class" not in spec:
        raise ConfigError(f"{where}: {dict(spec)!r} has no 'class'.\n  E.g. {{'class': 'adam', 'epsilon': 1e-8}}.")
    return dict(spec)


def _check_class(factory: type | Callable, *, where: str) -> None:
    if isinstance(factory, type) and not hasattr(factory, "get_slot_names"):
        raise ConfigError(
            f"{where}: class {factory.__name__!r} of {factory.__module__!r} cannot update variables of a graph.\n"
            "  Use the name of an optimizer, e.g. 'adamw', or derive from returnn.tf.updater.Optimizer."
        )


def _spec_of_old_flags(config: Config) -> dict[str, object]:
    for name in _OLD_FLAGS:
        if getattr(config.options, name):
            return {"class": name}
    rmsprop = config.options.rmsprop
    if rmsprop is True:
        return {"class": "rmsprop"}
    if rmsprop:
        return {"class": "rmsprop", "decay": rmsprop}
    return {"class": "momentum" if config.options.momentum else "GradientDescent"}


def _implicit_options(config: Config, known: Mapping[str, inspect.Parameter], name: object) -> dict[str, object]:
    """:return: what is set beside the optimizer in the config, and its defaults, as far as the optimizer has it"""
    momentum = config.options.momentum
    if momentum and "momentum" not in known:
        raise ConfigError(
            f"option 'momentum' is {momentum!r}, but the optimizer {_name_of(name)!r} has none.\n"
            "  Remove it, or use e.g. optimizer = {'class': 'momentum'}."
        )
    implicit = {
        "epsilon": config.options.optimizer_epsilon,
        "use_locking": config.options.optimizer_use_locking,
    }
    if momentum or ("momentum" in known and known["momentum"].default is inspect.Parameter.empty):
        implicit["momentum"] = momentum
    return {option: value for option, value in implicit.items() if option in known}


def _check_complete(options: Mapping[str, object], known: Mapping[str, inspect.Parameter], *, where: str) -> None:
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in options and name != "learning_rate":
            raise ConfigError(f"{where}: option {name!r} is missing.")
