"""
What can be said of a net dict without any dims: names, classes and options; which layers nothing uses.

It finds errors in layers that cannot be made because of an error in another one, as in the rest of a loop.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.layer_options import options_of, public_options_of
from returnn.tf.layers.options.registry import get_layer_class, get_loss_class
from returnn.tf.layers.rec.recurrent_layer import RecurrentLayer
from returnn.tf.layers.rec.units.registry import get_unit_class
from returnn.tf.network.extra_nets import is_name_in_extra_net, known_in_extra_net
from returnn.util.errors import ConfigError, nearest_hint

_NETS = {"subnetwork": "subnetwork", "unit": "loop"}  # option -> what it describes
_OUTER = ("base:", "../")
_SEARCH_CLASSES = ("choice", "decide", "split_batch_beam", "ctc_decode")


@dataclass(frozen=True)
class Scope:
    """A net dict, and where it stands."""

    net_dict: Mapping[str, Any]
    prefix: str = ""  # what absolute names begin with
    outer: Scope | None = None
    data_keys: Collection[str] | None = ()  # None: not known

    @property
    def root(self) -> Scope:
        """The outermost one."""
        return self if self.outer is None else self.outer.root


@dataclass
class Findings:
    """What is wrong in the layers that are needed."""

    errors: dict[str, ConfigError] = field(default_factory=dict)  # by absolute name of the layer
    visited: set[str] = field(default_factory=set)  # absolute names

    def add(self, scope: Scope, name: str, text: str) -> None:
        """Notes the first error of a layer."""
        full_name = scope.prefix + name
        self.errors.setdefault(full_name, ConfigError(f"layer {full_name!r}{text}"))


def look_at_net_dict(net_dict: Mapping[str, Any], wanted: Collection[str], *, data_keys: Collection[str]) -> Findings:
    """
    :param net_dict: options of each layer, by name
    :param wanted: layers that are needed; these are looked at, and all that they need
    :param data_keys: what "data:KEY" can be
    """
    findings = Findings()
    root = Scope(net_dict, data_keys=data_keys)
    todo = [(root, name) for name in wanted]
    while todo:
        scope, name = todo.pop()
        if name not in scope.net_dict or scope.prefix + name in findings.visited:
            continue
        findings.visited.add(scope.prefix + name)
        desc = scope.net_dict[name]
        if isinstance(desc, Mapping):
            _check_layer(scope, name, desc, findings)
            todo += _needed(scope, name, desc)
    return findings


def unused_layers(net_dict: Mapping[str, Any], visited: Collection[str]) -> list[str]:
    """
    :param net_dict: options of each layer, by name
    :param visited: absolute names of the layers that something needs
    :return: those which nothing needs
    """
    words = {word for name in visited if name in net_dict for text in _texts(net_dict[name]) for word in _words(text)}
    return [name for name in net_dict if name not in visited and name not in words and not name.startswith("#")]


def has_search(net_dict: Any) -> bool:
    """:return: whether some layer, also in loops, does something else in search"""
    return any(desc.get("class") in _SEARCH_CLASSES or desc.get("only_on_search") for desc in _descriptions(net_dict))


def _words(text: str) -> list[str]:
    return re.findall(r"[\w.-]+", text)


def _check_layer(scope: Scope, name: str, desc: Mapping[str, Any], findings: Findings) -> None:
    if "class" not in desc:
        findings.add(scope, name, ": the option 'class' is required.")
        return
    try:
        layer_class = get_layer_class(desc["class"])
    except ConfigError as exc:
        findings.add(scope, name, f": {exc}")
        return
    if not (isinstance(layer_class, type) and issubclass(layer_class, LayerBase)):
        return
    is_plain = layer_class.transform_config_dict.__func__ is LayerBase.transform_config_dict.__func__  # type: ignore[attr-defined]
    if is_plain or layer_class.__module__.startswith("returnn."):  # otherwise it may take any option
        known = [*public_options_of(layer_class), "loss_opts_"]  # that one stands in no signature
        for option in desc:
            if option not in known and not option.startswith("_"):
                hint = nearest_hint(option, known)
                findings.add(scope, name, f" (class {desc['class']!r}): there is no option {option!r}.\n  {hint}")
                return
    try:
        _check_names_of_classes(layer_class, desc)
    except ConfigError as exc:
        findings.add(scope, name, f" (class {desc['class']!r}): {exc}")
        return
    for source in _sources(layer_class if is_plain else None, desc):
        missing = _missing(scope, source)
        if missing is not None:
            where, part = missing
            known = [*where.net_dict, *(f"data:{key}" for key in where.data_keys or ())]
            hint = _outside(where, part) or nearest_hint(part, known)
            findings.add(scope, name, f": there is no layer {where.prefix + part!r}.\n  {hint}")
            return


def _outside(scope: Scope, name: str) -> str | None:
    """:return: hint, if a net dict around has a layer of that name"""
    prefix, outer = "base:", scope.outer
    while outer is not None:
        if name in outer.net_dict:
            return f"There is one outside of it: {prefix + name!r}."
        prefix, outer = f"base:{prefix}", outer.outer
    return None


def _check_names_of_classes(layer_class: type[LayerBase], desc: Mapping[str, Any]) -> None:
    """:raises ConfigError: if there is no such loss or unit"""
    if isinstance(desc.get("loss"), str):
        get_loss_class(desc["loss"])
    if issubclass(layer_class, RecurrentLayer) and isinstance(desc.get("unit", ""), str) and "unit" in desc:
        get_unit_class(desc["unit"], as_cell=layer_class.unit_as_cell, opts=desc.get("unit_opts"))


def _sources(layer_class: type[LayerBase] | None, desc: Mapping[str, Any]) -> Iterator[str]:
    """:return: names of layers that are nothing else, in `from` and in the options of the class that hold layers"""
    names = ["from"]
    for name, option in options_of(layer_class).items() if layer_class is not None else ():
        if option.holds_layer and not option.may_be_text:
            names.append(name)
    for name in names:
        value = desc.get(name)
        items = value if isinstance(value, (list, tuple)) else [value]
        yield from (item for item in items if isinstance(item, str))


def _missing(scope: Scope, name: str) -> tuple[Scope, str] | None:
    """:return: None if there is a layer of this name, or if this cannot be said; otherwise where it is not"""
    for prefix in _OUTER:
        if name.startswith(prefix):
            return None if scope.outer is None else _missing(scope.outer, name.removeprefix(prefix))
    if name.startswith("root:"):
        return _missing(scope.root, name.removeprefix("root:"))
    if is_name_in_extra_net(name):
        is_entry = name.partition("/")[0] in scope.net_dict
        return None if is_entry else _missing(scope, name.partition(":")[2])
    if name.startswith("prev:"):
        name = name.removeprefix("prev:")
    if name in scope.net_dict or name == ":i" or name == "data" or known_in_extra_net(name, scope.net_dict):
        return None
    if name.startswith("data:"):
        keys = scope.root.data_keys
        unknown = scope.data_keys is None or keys is None or name.removeprefix("data:") in [*keys, *scope.data_keys]
        return None if unknown else (scope, name)
    first, _, rest = name.partition("/")
    if first not in scope.net_dict:
        return scope, first if rest else name
    inner = next(_inner_scopes(scope, first, scope.net_dict[first]), None) if rest else None
    is_known = inner is None or rest.partition("/")[0] in inner.net_dict or rest in inner.net_dict
    return None if is_known else (inner, rest)  # type: ignore[return-value]


def _inner_scopes(scope: Scope, name: str, desc: Any) -> Iterator[Scope]:
    """:return: the nets that a layer consists of"""
    for option in _NETS if isinstance(desc, Mapping) else ():
        net_dict = desc.get(option)
        if isinstance(net_dict, Mapping) and "class" not in net_dict:
            yield Scope(net_dict, f"{scope.prefix}{name}/", scope, data_keys=None)


def _needed(scope: Scope, name: str, desc: Mapping[str, Any]) -> Iterator[tuple[Scope, str]]:
    """:return: all layers that a layer may need"""
    for text in _texts(desc):
        yield from _reading_of(scope, text)
    for inner in (inner for layer in _layers_in_options(desc) for inner in _inner_scopes(scope, name, layer)):
        yield from ((inner, inner_name) for inner_name, d in inner.net_dict.items() if _is_wanted_inside(inner_name, d))
        for inner_desc in inner.net_dict.values():
            for text in _texts(inner_desc):
                if text.startswith((*_OUTER, "root:")):
                    yield from _reading_of(inner, text)


def _layers_in_options(desc: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """:return: the layer, and those that options describe, as "true_layer" of a condition does"""
    yield desc
    for value in desc.values():
        if isinstance(value, Mapping) and "class" in value:
            yield from _layers_in_options(value)


def _is_wanted_inside(name: str, desc: Any) -> bool:
    if name in ("output", "end"):
        return True
    options = ("is_output_layer", "loss", "need_last", "register_as_extern_data")
    return isinstance(desc, Mapping) and any(desc.get(option) for option in options)


def _reading_of(scope: Scope, text: str) -> Iterator[tuple[Scope, str]]:
    """:return: what the text means if it is the name of a layer"""
    name = text
    for prefix in ("layer:", "prev:"):
        name = name.removeprefix(prefix)
    for prefix in _OUTER:
        if name.startswith(prefix):
            if scope.outer is not None:
                yield from _reading_of(scope.outer, name.removeprefix(prefix))
            return
    if name.startswith("root:"):
        yield from _reading_of(scope.root, name.removeprefix("root:"))
        return
    if is_name_in_extra_net(name):
        if name in scope.net_dict:
            yield scope, name
        yield from _reading_of(scope, name.partition(":")[2])
        return
    yield scope, name
    first, _, rest = name.partition("/")
    if rest and first in scope.net_dict:
        yield scope, first
        for inner in _inner_scopes(scope, first, scope.net_dict[first]):
            yield from _reading_of(inner, rest)


def _texts(value: Any) -> Iterator[str]:
    """:return: all texts in a nested structure, not those of the layers inside of a net"""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key != "class" and not (key in _NETS and isinstance(item, Mapping) and "class" not in item):
                yield from _texts(item)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _texts(item)


def _descriptions(value: Any) -> Iterator[Mapping[str, Any]]:
    """:return: all dicts in it"""
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _descriptions(item)
