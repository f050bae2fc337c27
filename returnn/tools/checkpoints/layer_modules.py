"""
Parameters of layers of a net dict as those of modules of `returnn.frontend`, and back.

A layer `encoder` has `encoder/W` and `encoder/b` where a module `encoder` has `encoder.weight` and `encoder.bias`. The
values are the same: (in, out) for a linear map, (frames, in, out) for a convolution, whose `W` is `filter` in a module,
and one head after the other for self-attention, whose `QKV` is `qkv.weight`. LSTMs, also cells in loops, are `rf.LSTM`.

One dict says it for both ways: layer -> module, or parameter -> parameter. In place of the name, there can be a dict:

    {"module": "s", "lstm": "standardlstm"}: the layout of the LSTM of the layer, default "native"
    {"parameter": "energy", "without_axis": 1}: the layer has an axis of size 1 there, and the module has not
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from returnn.tools.checkpoints.convert_lstms import what_is_lost
from returnn.util.errors import UserError, check_known
from returnn.util.numbers.lstm_layouts import LAYOUTS, Layout, read_lstm, write_lstm
from returnn.util.texts.counted import counted

# Of a layer, of a module, how many axes a value has.
_PARAMS = (
    ("W", "weight", (2,)),
    ("W", "filter", (3, 4, 5)),
    ("b", "bias", (1,)),
    ("bias", "bias", (1,)),
    ("scale", "scale", (1,)),
    ("QKV", "qkv.weight", (2,)),
)
_WITH_BIAS_IN_FULL = {"filter", "scale"}  # of modules: beside these, the bias of a layer is called "bias"
_BATCH_NORM = "batch_norm"  # of a layer: parameters are below, by names that depend on 'param_version'
_BATCH_NORM_PARAMS = {"mean": "running_mean", "variance": "running_variance", "gamma": "gamma", "beta": "beta"}
_OPTIMIZER = "optimize/"  # in TensorFlow, where names of its state begin; PyTorch has that in another file
_LAYER_LSTMS = [layout for name, layout in LAYOUTS.items() if name != "torch"]
_MODULE_LSTM = LAYOUTS["frontend"]

Values = Mapping[str, numpy.ndarray]


@dataclass(frozen=True)
class Place:
    """Where a layer or one of its parameters is in the model in Python."""

    layer: str
    module: str
    lstm: Layout = LAYOUTS["native"]
    without_axis: int | None = None


@dataclass(frozen=True)
class Mapped:
    """Parameters by their new names, and what a user should know of it."""

    values: dict[str, numpy.ndarray]
    notes: Sequence[str]


def places_of(mapping: Mapping[str, Any]) -> list[Place]:
    """
    :param mapping: see the head of this module
    :raises UserError: if it is something else
    """
    if not isinstance(mapping, Mapping):
        raise UserError(f"mapping: expected a dict from layers to modules, got {mapping!r}.")
    return [_place_of(layer, module) for layer, module in mapping.items()]


def _place_of(layer: str, module: Any) -> Place:
    given = module if isinstance(module, Mapping) else {"module": module}
    names = [given[key] for key in ("module", "parameter") if key in given]
    axis = given.get("without_axis")
    unknown = set(given) - {"module", "parameter", "lstm", "without_axis"}
    if unknown or len(names) != 1 or not all(isinstance(name, str) for name in (layer, *names)):
        raise UserError(
            f"mapping: {layer!r}: expected the name of a module or parameter, got {module!r}.\n"
            "  Or a dict with 'module' and 'lstm', or with 'parameter' and 'without_axis'."
        )
    lstm = given.get("lstm", "native")
    check_known("layout", lstm, {layout.name: layout for layout in _LAYER_LSTMS}, where=f"mapping: {layer!r}")
    if axis is not None and not isinstance(axis, int):
        raise UserError(f"mapping: {layer!r}: 'without_axis': expected a number, got {axis!r}.")
    return Place(layer, names[0], LAYOUTS[lstm], axis)


def layers_to_modules(values: Values, places: Sequence[Place], *, forget_bias: float = 1.0) -> Mapped:
    """
    :param values: of layers
    :param places: of all of them
    :param forget_bias: what units of LSTMs add to the forget gate, which do so
    :raises UserError: if a layer has no parameters, or others than a module could have, or nothing is said about one
    """
    return _Mapping(values, forget_bias, is_to_modules=True).of(places)


def modules_to_layers(values: Values, places: Sequence[Place], *, forget_bias: float = 1.0) -> Mapped:
    """
    :param values: of modules, in PyTorch or TensorFlow
    :param places: of all of them
    :param forget_bias: what units of LSTMs add to the forget gate, which do so
    :raises UserError: if a module has no parameters, or others than a layer could have, or nothing is said about one
    """
    return _Mapping(values, forget_bias, is_to_modules=False).of(places)


class _Mapping:
    """One way, in the course of which all values find their places."""

    def __init__(self, values: Values, forget_bias: float, *, is_to_modules: bool) -> None:
        self.values = values
        self.left = {name: x for name, x in values.items() if not name.startswith(_OPTIMIZER)}
        if not is_to_modules:  # in TensorFlow, their names have slashes
            self.left = {name.replace("/", "."): x for name, x in self.left.items()}
        self.num_params = len(self.left)
        self.mapped: dict[str, numpy.ndarray] = {}
        self.lost: Counter[str] = Counter()
        self.forget_bias = forget_bias
        self.is_to_modules = is_to_modules

    def of(self, places: Sequence[Place]) -> Mapped:
        """:return: all values at their places"""
        for place in sorted(places, key=lambda place: -len(self._names_of(place)[0])):  # what is inside comes first
            self._move(place)
        if self.left:
            raise UserError(f"mapping: it says nothing about {_some(self.left)}.")
        notes = [f"{reason}, in {counted(count, 'LSTM')}" for reason, count in self.lost.items()]
        if num_optimizer := len(self.values) - self.num_params:
            notes.append(f"without the state of the optimizer, {counted(num_optimizer, 'tensor')}")
        return Mapped(self.mapped, notes)

    def _names_of(self, place: Place) -> tuple[str, str]:
        return (place.layer, place.module) if self.is_to_modules else (place.module, place.layer)

    def _move(self, place: Place) -> None:
        old, new = self._names_of(place)
        if old in self.left:
            self._put(new, self._with_axis(self.left.pop(old), old, place.without_axis))
            return
        separator, new_separator = ("/", ".") if self.is_to_modules else (".", "/")
        own = {
            name.removeprefix(f"{old}{separator}"): value
            for name, value in self.left.items()
            if name.startswith(f"{old}{separator}")
        }
        found = self._to_module(own, place) if self.is_to_modules else self._to_layer(own, place)
        if not found:
            raise UserError(f"mapping: {old!r} has no parameters.\n  There are: {_some(self.left or self.values)}.")
        for name, (sources, value) in found.items():
            for source in sources:
                self.left.pop(f"{old}{separator}{source}", None)
            self._put(f"{new}{new_separator}{name}", value)

    def _put(self, name: str, value: numpy.ndarray) -> None:
        if name in self.mapped:
            raise UserError(f"mapping: several parameters would be {name!r}.")
        self.mapped[name] = value

    def _with_axis(self, value: numpy.ndarray, name: str, axis: int | None) -> numpy.ndarray:
        if axis is None:
            return value
        try:
            return numpy.squeeze(value, axis) if self.is_to_modules else numpy.expand_dims(value, axis)
        except ValueError as exc:
            raise UserError(
                f"mapping: {name!r} with the shape {value.shape}: 'without_axis': {axis} is of no axis of size 1."
            ) from exc

    def _to_module(self, own: Values, place: Place) -> _Found:
        """:return: name in the module -> names in the layer, value"""
        found: _Found = {}
        for layout in _LAYER_LSTMS:
            names = [f"rec/{suffix}" for suffix in layout.suffixes if f"rec/{suffix}" in own]
            if len(names) >= len(layout.needed):
                found.update(self._lstm(own, names, layout, _MODULE_LSTM, "", place))
        scope = _scope_of_batch_norm(place)
        for name, value in own.items():
            if match := re.fullmatch(rf"{scope}(?:v2_|[^/]*_output_|)(mean|variance|gamma|beta)", name):
                if value.size != max(value.shape, default=1):
                    raise self._nameless(name, value, place)
                found[_BATCH_NORM_PARAMS[match[1]]] = ([name], value.reshape(-1))
            elif "/" not in name:
                found[self._other_name(name, value, place)] = ([name], value)
        return found

    def _to_layer(self, own: Values, place: Place) -> _Found:
        """:return: name in the layer -> names in the module, value"""
        if set(_MODULE_LSTM.needed) <= set(own):
            names = [suffix for suffix in _MODULE_LSTM.suffixes if suffix in own]
            return self._lstm(own, names, _MODULE_LSTM, place.lstm, "rec/", place)
        found: _Found = {}
        of_batch_norm = {module: layer for layer, module in _BATCH_NORM_PARAMS.items()}
        scope = _scope_of_batch_norm(place)
        for name, value in own.items():
            if name in of_batch_norm:
                found[f"{scope}v2_{of_batch_norm[name]}"] = ([name], value)
            elif name == "bias" and set(own) & _WITH_BIAS_IN_FULL:
                found["bias"] = ([name], value)
            elif "." not in name or name.startswith("qkv."):
                found[self._other_name(name, value, place)] = ([name], value)
        return found

    def _lstm(self, own: Values, names: Sequence[str], old: Layout, new: Layout, scope: str, place: Place) -> _Found:
        try:
            params = read_lstm([own[name] for name in names], old, forget_bias=self.forget_bias)
        except (ValueError, IndexError) as exc:
            shapes = ", ".join(str(own[name].shape) for name in names[:4])
            raise UserError(
                f"mapping: {self._names_of(place)[0]!r} has the shapes {shapes}, which are of no LSTM."
            ) from exc
        written = write_lstm(params, new, forget_bias=self.forget_bias)
        if reason := what_is_lost(params, written, old, new, self.forget_bias):
            self.lost[reason] += 1
        found: _Found = {f"{scope}{suffix}": ([], value) for suffix, value in zip(new.suffixes, written, strict=False)}
        first = next(iter(found))
        return {**found, first: (list(names), found[first][1])}

    def _other_name(self, param: str, value: numpy.ndarray, place: Place) -> str:
        for layer_param, module_param, ndims in _PARAMS:
            old, new = (layer_param, module_param) if self.is_to_modules else (module_param, layer_param)
            if old == param and value.ndim in ndims:
                return new
        raise self._nameless(param, value, place)

    def _nameless(self, param: str, value: numpy.ndarray, place: Place) -> UserError:
        old, new = self._names_of(place)
        separator = "/" if self.is_to_modules else "."
        hint = ""
        if param == "qkv.bias":
            hint = "\n  The layer has no bias there: make the module with with_bias=False."
        name = f"{old}{separator}{param}"
        return UserError(f"mapping: {name!r} with the shape {value.shape} has no name in {new!r}.{hint}")


def _scope_of_batch_norm(place: Place) -> str:
    """:return: of its names in the layer; `"layer/batch_norm": "norm"` is said of an option of another layer"""
    return "" if place.layer.endswith(f"/{_BATCH_NORM}") else f"{_BATCH_NORM}/"


_Found = dict[str, tuple[Sequence[str], numpy.ndarray]]


def _some(names: Mapping[str, object] | Sequence[str], num: int = 5) -> str:
    shown = ", ".join(map(repr, list(names)[:num]))
    return f"{shown} and {len(names) - num} others" if len(names) > num else shown
