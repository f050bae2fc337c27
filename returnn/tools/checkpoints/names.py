"""
Names of parameters: other ones by patterns, and those of layers of a net dict as those of modules, and back.

A layer `encoder` has `encoder/W` and `encoder/b` where a module `encoder` has `encoder.weight` and `encoder.bias`. The
values are the same: (in, out) for a linear map, (frames, in, out) for a convolution, whose `W` is `filter` in a module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy

from returnn.util.errors import UserError

# Of a layer, of a module, how many axes a value has.
_PARAMS = (
    ("W", "weight", (2,)),
    ("W", "filter", (3, 4, 5)),
    ("W_re", "rec_weight", (2,)),
    ("b", "bias", (1,)),
    ("bias", "bias", (1,)),
    ("scale", "scale", (1,)),
)
_WITH_BIAS_IN_FULL = {"filter", "scale"}  # of modules: beside these, the bias of a layer is called "bias"
_REC_SCOPE = "/rec"  # below a recurrent layer


def rename(values: Mapping[str, numpy.ndarray], rules: Sequence[tuple[str, str]]) -> dict[str, numpy.ndarray]:
    """
    :param values: by name
    :param rules: pattern (a regular expression), replacement; all of them are tried, one after the other
    :raises UserError: if a pattern is wrong or fits nothing, or two parameters get the same name
    """
    names = {name: name for name in values}
    for pattern, replacement in rules:
        try:
            changed = {name: re.sub(pattern, replacement, new) for name, new in names.items()}
        except (re.error, IndexError) as exc:
            raise UserError(f"option '--rename': {pattern!r}, {replacement!r}: {exc}.") from exc
        if changed == names:
            raise UserError(f"option '--rename': {pattern!r} is in no name, such as {next(iter(values), None)!r}.")
        names = changed
    return _with_names(values, names)


def layers_to_modules(values: Mapping[str, numpy.ndarray], mapping: Mapping[str, str]) -> dict[str, numpy.ndarray]:
    """
    :param values: of layers
    :param mapping: layer -> module
    :return: of modules; an LSTM is in the layout `frontend` before, and its layer is without "/rec"
    :raises UserError: if a layer has no parameters, or others than a module could have
    """
    return _mapped(values, mapping, is_to_modules=True)


def modules_to_layers(values: Mapping[str, numpy.ndarray], mapping: Mapping[str, str]) -> dict[str, numpy.ndarray]:
    """
    :param values: of modules
    :param mapping: module -> layer
    :return: of layers
    :raises UserError: if a module has no parameters, or others than a layer could have
    """
    return _mapped(values, mapping, is_to_modules=False)


def _mapped(
    values: Mapping[str, numpy.ndarray], mapping: Mapping[str, str], *, is_to_modules: bool
) -> dict[str, numpy.ndarray]:
    old_separator, new_separator = ("/", ".") if is_to_modules else (".", "/")
    names: dict[str, str] = {}
    for old, new in mapping.items():
        own = [name for name in values if name.rpartition(old_separator)[0] in (old, f"{old}{_REC_SCOPE}")]
        if not own:
            raise UserError(f"mapping: {old!r} has no parameters.\n  There are: {_some(values)}.")
        is_lstm = any(name.endswith("rec_weight") for name in own)
        siblings = {name.rpartition(old_separator)[2] for name in own}
        for name in own:
            scope, _, param = name.rpartition(old_separator)
            inner = _REC_SCOPE if is_lstm and not is_to_modules else ""
            other = param if is_lstm else _other_name(param, values[name], is_to_modules=is_to_modules)
            if other == "b" and siblings & _WITH_BIAS_IN_FULL:
                other = "bias"
            if other is None:
                raise UserError(f"mapping: {name!r} with the shape {values[name].shape} has no name in {new!r}.")
            assert scope
            names[name] = f"{new}{inner}{new_separator}{other}"
    left_out = [name for name in values if name not in names]
    if left_out:
        raise UserError(f"mapping: it says nothing about {_some(left_out)}.")
    return _with_names(values, names)


def _other_name(param: str, value: numpy.ndarray, *, is_to_modules: bool) -> str | None:
    for layer_param, module_param, ndims in _PARAMS:
        old, new = (layer_param, module_param) if is_to_modules else (module_param, layer_param)
        if old == param and value.ndim in ndims:
            return new
    return None


def _with_names(values: Mapping[str, numpy.ndarray], names: Mapping[str, str]) -> dict[str, numpy.ndarray]:
    result: dict[str, numpy.ndarray] = {}
    for name, value in values.items():
        if names[name] in result:
            twin = next(other for other, new in names.items() if new == names[name])
            raise UserError(f"{twin!r} and {name!r} would both be {names[name]!r}.")
        result[names[name]] = value
    return result


def _some(names: Mapping[str, object] | Sequence[str], num: int = 5) -> str:
    shown = ", ".join(map(repr, list(names)[:num]))
    return f"{shown} and {len(names) - num} others" if len(names) > num else shown
