"""
Which options a layer class has: it follows from the signatures of `__init__` along its base classes.

An option with `LayerBase` in its annotation holds a layer, or a nested structure of layers: in the net dict, it has
the names of these. So a layer class is declared once, and nobody has to write down again what to resolve or check.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from returnn.config.option_types import DTYPES, allows_none, annotation_of, check_type, params_in_docstring
from returnn.tf.layers.options.past import hint_for_option
from returnn.util.errors import ConfigError, check_known, nearest_hint
from returnn.util.python.nested import map_nested

_INTERNAL = {"self", "name", "network", "output", "sources", "rec_previous_layer"}
_NOT_SOURCES = {"network", "_network", "rec_previous_layer"}


@dataclass(frozen=True)
class Option:
    """One option of a layer class."""

    name: str
    default: Any  # inspect.Parameter.empty if it is required
    holds_layer: bool
    may_be_text: bool  # a text is not always the name of a layer
    init: Callable[..., Any]  # where it is declared

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is inspect.Parameter.empty

    def is_missing_in(self, given: Mapping[str, Any]) -> bool:
        """:return: whether it is required, and has no value"""
        if not self.is_required or given.get(self.name) is not None:
            return False
        return self.name not in given or not allows_none(annotation_of(self.init, self.name))

    @property
    def is_number(self) -> bool:
        """Whether it has a number as default, and cannot be None."""
        return not self.is_required and annotation_of(self.init, self.name) in (int, float)

    @property
    def meaning(self) -> str:
        """What its documentation says; empty if there is none."""
        return params_in_docstring(self.init).get(self.name, "")

    def check(self, value: Any, *, where: str) -> None:
        """:raises ConfigError: if it cannot have this value"""
        if self.name == "dtype" and isinstance(value, str):
            check_known("dtype", value, DTYPES, where=f"{where}: option 'dtype'")
        annotation = annotation_of(self.init, self.name)
        check_type(self.name, value, annotation, where=where, meaning=self.meaning)


@functools.cache
def options_of(layer_class: type) -> Mapping[str, Option]:
    """:return: all options of the class and its bases, as long as these are passed on by `**kwargs`"""
    options: dict[str, Option] = {}
    fixed = {name for base in layer_class.__mro__ for name in base.__dict__.get("fixed_options", ())}
    for base in layer_class.__mro__:
        init = base.__dict__.get("__init__")
        if init is None or base is object:
            continue
        parameters = inspect.signature(init).parameters
        for parameter in parameters.values():
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if parameter.name not in fixed:
                options.setdefault(parameter.name, _as_option(parameter, init))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            break
    return options


def public_options_of(layer_class: type) -> list[str]:
    """:return: the options which can stand in a net dict"""
    names = [name for name in options_of(layer_class) if name not in _INTERNAL and not name.startswith("_")]
    return [*names, "class", "from", "loss_opts", "loss_scale", "loss_only_on_non_search"]


def check_options(layer_class: type, given: Mapping[str, Any], *, where: str) -> None:
    """:raises ConfigError: if there is no such option, a required one is missing, or one cannot have its value"""
    options = options_of(layer_class)
    for name, value in given.items():
        if name not in options:
            instead = hint_for_option(str(getattr(layer_class, "layer_class", None)), name)
            if instead is not None:
                raise ConfigError(f"{where}: the option {name!r} is no more.\n  Instead: {instead}.")
            hint = nearest_hint(name, public_options_of(layer_class))
            raise ConfigError(f"{where}: there is no option {name!r}.\n  {hint}")
        if name not in _INTERNAL:
            options[name].check(value, where=where)
    missing = [name for name, option in options.items() if name not in _INTERNAL and option.is_missing_in(given)]
    if missing:
        raise ConfigError(f"{where}: the option {missing[0]!r} is required.")


def without_none(layer_class: type, given: dict[str, Any]) -> dict[str, Any]:
    """:return: options, without those for which None stands for the default: numbers that have one"""
    options = options_of(layer_class)
    return {
        name: value
        for name, value in given.items()
        if value is not None or name in _INTERNAL or not options[name].is_number
    }


def resolve_layers(layer_class: type, given: dict[str, Any], get_layer: Callable[[str], Any]) -> None:
    """Replaces names of layers by the layers, in place, in all options that hold layers."""
    for name, option in options_of(layer_class).items():
        if option.holds_layer and not option.may_be_text and name in given and name not in _INTERNAL:
            given[name] = map_nested(lambda item: get_layer(item) if isinstance(item, str) else item, given[name])


def map_layers(given: dict[str, Any], function: Callable[[Any], Any]) -> None:
    """Replaces each layer in the options by `function(layer)`, in place."""
    for name, value in given.items():
        if name not in _NOT_SOURCES and layers_in(value):
            given[name] = map_nested_layers(value, function)


def map_nested_layers(value: Any, function: Callable[[Any], Any]) -> Any:
    """:return: a nested structure with `function(layer)` in place of each layer"""
    return map_nested(lambda item: function(item) if _is_layer(item) else item, value)


def layers_in_options(given: Mapping[str, Any]) -> list[Any]:
    """:return: all layers in the options, each once"""
    found = [layer for name, value in given.items() if name not in _NOT_SOURCES for layer in layers_in(value)]
    return list(dict.fromkeys(found))


def layers_in(value: Any) -> list[Any]:
    """:return: the layers in a nested structure"""
    if _is_layer(value):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [layer for item in value for layer in layers_in(item)] if isinstance(value, (list, tuple)) else []


def _is_layer(value: Any) -> bool:
    return hasattr(value, "get_absolute_name") and not isinstance(value, type)  # net dicts can have layer classes


def _as_option(parameter: inspect.Parameter, init: Callable[..., Any]) -> Option:
    annotation = parameter.annotation if isinstance(parameter.annotation, str) else ""
    holds_layer = "LayerBase" in annotation
    words = annotation.replace("[", " ").replace("]", " ").replace("|", " ").replace(",", " ").split()
    return Option(parameter.name, parameter.default, holds_layer, may_be_text=holds_layer and "str" in words, init=init)
