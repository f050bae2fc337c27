"""
In a search, what attention has found in the frame before is not kept, but computed again from its weights.

Where a product is computed of it, that can then be done the other way round, see `search_products`. And of a
hypothesis, its weights are mostly less than what they find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_READERS = ("linear", "rec", "rnn_cell", "softmax")  # classes that compute a product of their sources
# Classes of sums over frames of the outside, or of what only has other axes than one; and what options they may have.
_OPTIONS = {
    "copy": {"from"},
    "dot": {"from", "reduce", "red1", "red2", "var1", "var2", "add_var2_if_empty", "use_mask"},
    "generic_attention": {"weights", "base", "auto_squeeze"},
    "merge_dims": {"from", "axes", "axis", "n_out", "keep_order"},
    "squeeze": {"from", "axis", "enlarge"},
}
_OF_OTHERS = {"class", "is_output_layer"}  # options that say nothing about the value
_PREV, _BASE = "prev:", "base:"

Unit = Mapping[str, Any]


def with_sums_computed_again(unit: Unit) -> Unit:
    """
    :param unit: layers of a time step, by name
    :return: the same, with further layers in place of "prev:" of sums over frames of the outside
    """
    readers = {name: desc for name, desc in unit.items() if _is_reader(desc)}
    sums = {
        source.removeprefix(_PREV)
        for desc in readers.values()
        for source in _sources(desc)
        if source.startswith(_PREV)
    }  # fmt: skip
    new_layers: dict[str, Any] = {}
    for name in sorted(sums):
        chain = _chain(unit, name)
        if chain is not None:
            new_layers.update(_before(unit, chain))
    if not new_layers:
        return unit
    new_names = {_PREV + name: new for name in sums if (new := _name_before(unit, name)) in new_layers}
    renamed = {name: {**desc, "from": _renamed(desc["from"], new_names)} for name, desc in readers.items()}
    return {**unit, **renamed, **new_layers}


def _is_reader(desc: Any) -> bool:
    return isinstance(desc, Mapping) and desc.get("class") in _READERS and "from" in desc


def _sources(desc: Unit) -> list[str]:
    sources = desc["from"]
    sources = sources if isinstance(sources, (list, tuple)) else [sources]
    return [source for source in sources if isinstance(source, str)]


def _renamed(sources: Any, names: Mapping[str, str]) -> Any:
    if isinstance(sources, (list, tuple)):
        return [names.get(source, source) if isinstance(source, str) else source for source in sources]
    return names.get(sources, sources) if isinstance(sources, str) else sources


def _chain(unit: Unit, name: str) -> list[str] | None:
    """:return: the layer, and those from which it is made, up to a sum; None if that is not known to be 0 at first"""
    chain = []
    while True:
        desc = unit.get(name)
        if not isinstance(desc, Mapping) or desc.get("class") not in _OPTIONS or name in chain:
            return None
        if not set(desc) <= _OPTIONS[desc["class"]] | _OF_OTHERS:
            return None
        chain.append(name)
        inside = [other for other in _inputs(desc) if not other.startswith(_BASE)]
        if len(inside) != 1 or inside[0] not in unit:
            return None
        if desc["class"] in ("dot", "generic_attention"):
            weights = unit[inside[0]]
            has_base = len(_inputs(desc)) == 2
            return chain if has_base and isinstance(weights, Mapping) and "initial_output" not in weights else None
        name = inside[0]


def _inputs(desc: Unit) -> list[str]:
    """:return: names of the layers that it uses"""
    if desc["class"] == "generic_attention":
        return [name for key in ("weights", "base") if isinstance(name := desc.get(key), str)]
    return _sources(desc) if "from" in desc else []


def _before(unit: Unit, chain: list[str]) -> Iterator[tuple[str, Any]]:
    """:yield: name and options of each layer that computes one of these in the frame before"""
    for i, name in enumerate(chain):
        desc = {key: value for key, value in unit[name].items() if key not in _OF_OTHERS or key == "class"}
        for key in ("from", "weights"):
            if key in desc:
                used = next(source for source in _inputs(desc) if not source.startswith(_BASE))
                new = _PREV + used if i == len(chain) - 1 else _name_before(unit, used)
                desc[key] = _renamed(desc[key], {used: new})
        yield _name_before(unit, name), desc


def _name_before(unit: Unit, name: str) -> str:
    new = f"{name}_before"
    while new in unit:
        new += "_"
    return new
