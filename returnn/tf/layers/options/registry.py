"""
All layer and loss classes, by the names that a net dict uses.

The built-in ones are found in the modules of this package, once, when the first name is looked up. A config adds its
own with `register_layer_class`, or gives the class itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from returnn.config.current import MODULE_NAME
from returnn.tf.layers.options.other_names import LAYERS, LOSSES
from returnn.tf.layers.options.past import current_class, hint_for_class
from returnn.util.errors import ConfigError, nearest_hint

_layer_classes: dict[str, Any] = {}
_loss_classes: dict[str, Any] = {}
_is_loaded = [False]
_PACKAGE = "returnn.tf.layers"


def register_layer_class(layer_class: Any) -> None:
    """Makes a layer class known under its `layer_class`, which can also be a list of names."""
    for name in _names(layer_class.layer_class):
        known = _layer_classes.get(name)
        is_twice = known is not None and known is not layer_class and known.__module__ == layer_class.__module__
        if is_twice and known.__module__ != MODULE_NAME:  # a config can be loaded again
            raise ConfigError(f"layer class {name!r}: {known} and {layer_class} have the same name.")
        _layer_classes[name] = layer_class


def register_loss_class(loss_class: Any) -> None:
    """Makes a loss class known under its `class_name`, which can also be a list of names."""
    for name in _names(loss_class.class_name):
        _loss_classes[name] = loss_class


def get_layer_class(name: Any) -> Any:
    """
    :param name: as in a net dict; or a class, which is returned as it is
    :raises ConfigError: if there is no such class
    """
    return _look_up(name, _layer_classes, "layer class")


def is_choice(name: Any) -> bool:
    """
    :param name: anything that stands in a net dict
    :return: whether it is a class, or the name of one, whose layers make hypotheses in a search
    """
    if isinstance(name, str):
        _load_all()
        name = _layer_classes.get(name)
    return bool(getattr(name, "makes_hypotheses", False))


def get_loss_class(loss: Any) -> Any:
    """
    :param loss: name as in a net dict; or a class, which is returned as it is
    :raises ConfigError: if there is no such class
    """
    return _look_up(loss, _loss_classes, "loss")


def get_layer_class_name_list() -> list[str]:
    """:return: all names of layer classes"""
    _load_all()
    return sorted(_layer_classes)


def get_loss_class_name_list() -> list[str]:
    """:return: all names of loss classes"""
    _load_all()
    return sorted(_loss_classes)


def auto_register_layer_classes(vars_values: Any) -> None:
    """
    Makes all layer and loss classes known which are defined somewhere.

    :param vars_values: values, such as `list(globals().values())`
    """
    for value in list(vars_values.values() if isinstance(vars_values, Mapping) else vars_values):
        if not isinstance(value, type):
            continue
        if _own(value, "layer_class"):
            register_layer_class(value)
        elif _own(value, "class_name") and hasattr(value, "need_target"):
            register_loss_class(value)


def _own(cls: type, attribute: str) -> Any:
    return cls.__dict__.get(attribute)


def _names(names: Any) -> list[str]:
    if names is None:
        raise ConfigError("a layer or loss class needs a name.")
    return [names] if isinstance(names, str) else list(names)


def _look_up(name: Any, classes: dict[str, Any], kind: str) -> Any:
    if isinstance(name, type):
        return name
    if not isinstance(name, str):
        raise ConfigError(f"a {kind} is given by its name, a str, not {name!r}.")
    if name not in classes:
        name = current_class(name)
    if name not in classes:
        _load_all()
    if name not in classes:
        instead = hint_for_class(name)
        if instead is not None:
            raise ConfigError(f"the {kind} {name!r} is no more.\n  Instead: {instead}.")
        raise ConfigError(f"there is no {kind} {name!r}.\n  {_hint_for_unknown(name, classes, kind)}")
    return classes[name]


def _hint_for_unknown(name: Any, classes: dict[str, Any], kind: str) -> str:
    if not isinstance(name, str):
        return f"Got {name!r}."
    here = (LOSSES if kind == "loss" else LAYERS).get(name.lower())
    return nearest_hint(name, classes) if here is None else f"Here, it is {here}."


def _load_all() -> None:
    if _is_loaded[0]:
        return
    _is_loaded[0] = True
    package = importlib.import_module(_PACKAGE)
    try:
        for info in pkgutil.walk_packages(package.__path__, prefix=f"{_PACKAGE}."):
            auto_register_layer_classes(vars(importlib.import_module(info.name)))
    except BaseException:  # the next one who asks sees the same error
        _is_loaded[0] = False
        raise
