"""The options `initial_state` and `state` in all their forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.hidden_state import select_state, side_by_side
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.util.errors import ConfigError, nearest_hint

WORDS = ("zeros", "ones", "var", "keep_over_epoch", "keep_over_epoch_no_init")


def resolve_initial_state(value: Any, get_layer: Callable[[str], LayerBase]) -> Any:
    """:return: the option `initial_state` or `state`, with layers in place of their names"""
    if isinstance(value, str):
        return value if value in WORDS else get_layer(value)
    if isinstance(value, Mapping):
        return {key: resolve_initial_state(item, get_layer) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [resolve_initial_state(item, get_layer) for item in value]
    return value


def split_state(value: Any, names: Sequence[str], *, option: str, where: str) -> dict[str, Any]:
    """
    :param value: one value for all parts of a state; or by name; or a list
    :param names: of the parts
    :param option: for the error message, also `where`
    :return: value of each part
    :raises ConfigError: if it does not have these parts
    """
    keys = {name: name if len(names) > 1 else "*" for name in names}
    if isinstance(value, Mapping):
        for key in value:
            if key not in names:
                hint = nearest_hint(str(key), names)
                raise ConfigError(f"{where}: option {option!r}: the state has no part {key!r}.\n  {hint}")
        missing = [name for name in names if name not in value]
        if missing:
            raise ConfigError(f"{where}: option {option!r}: the part {missing[0]!r} is missing.")
        return {name: _part_of(value[name], key) for name, key in keys.items()}
    if isinstance(value, (list, tuple)):
        if len(value) != len(names):
            raise ConfigError(
                f"{where}: option {option!r}: got {len(value)} values for the {len(names)} parts {', '.join(names)}."
            )
        return {name: _part_of(item, keys[name]) for name, item in zip(names, value, strict=True)}
    return {name: _part_of(value, key) for name, key in keys.items()}


def part_of_state(value: Any, key: int | str | None, *, where: str) -> Any:
    """
    :param value: the option `initial_state`, with layers in place of their names
    :param key: name or number of one part; None: the state has no parts
    :param where: for the error message
    :return: value of this part
    :raises ConfigError: if there are values for parts, and none for this one
    """
    parts = {}
    if isinstance(value, Mapping):
        parts = dict(value)
    elif isinstance(value, (list, tuple)):
        parts = {**dict(enumerate(value)), **dict(zip(getattr(value, "_fields", ()), value, strict=False))}
    if parts and key not in parts:
        possible = ", ".join(map(repr, parts))
        raise ConfigError(f"{where}: option 'initial_state': the state has no part {key!r}.\n  Possible: {possible}.")
    return _part_of(parts[key] if parts else value, "*" if key is None else key)


def _part_of(value: Any, key: int | str) -> Any:
    """:return: of a layer with a hidden state that part of it, or all if it has none of this name; else its output"""
    if not isinstance(value, LayerBase) or not value.has_hidden_state():
        return value

    def last_state() -> Tensor:
        parts = value.hidden_state_parts()
        has_key = key in parts or isinstance(key, int)
        return side_by_side(select_state(parts, key if has_key else "*", where=value.where()))

    return last_state
