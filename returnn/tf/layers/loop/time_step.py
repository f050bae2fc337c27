"""
The time step of a loop as its dict says it: `parse` makes a value of it, before any layer is made.

A state that somebody outside asks for is kept for all frames, as its sequence may end in any of them. Who asks is read
from the net dict, as the loop is compiled before those that use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from returnn.tf.layers.loop.inputs import LoopInputs
from returnn.util.errors import ConfigError


@dataclass(frozen=True)
class TimeStep:
    """The layers of one frame as they are described, and what is asked of them."""

    descriptions: Mapping[str, Any] = field(repr=False)  # options of the layers, by name
    wanted: tuple[str, ...] = ("output",)  # paths of layers which the outside needs, "output" first
    asked_for_states: frozenset[str] = frozenset()  # paths of layers whose last hidden state may be used outside
    has_end: bool = False  # the layer "end" decides where a sequence ends

    def describe(self, path: str) -> Mapping[str, Any]:
        """:return: options of a layer of the time step; none if they do not say any"""
        return describe(path, self.descriptions)

    def owner_of_state(self, path: str) -> str:
        """:return: path of the layer whose hidden state a layer has: for a subnetwork, its layer "output" """
        return owner_of_state(path, self.descriptions)


def parse(inputs: LoopInputs) -> TimeStep:
    """
    :param inputs: the loop
    :raises ConfigError: if a layer is missing that the loop needs
    """
    layer, unit = inputs.layer, inputs.unit
    if "output" not in unit:
        choices = [name for name, desc in unit.items() if isinstance(desc, Mapping) and desc.get("class") == "choice"]
        example = next(iter([*choices, *reversed(list(unit))]), "x")
        raise ConfigError(
            f"{layer.where()}: option 'unit': there is no layer 'output' in the subnetwork.\n"
            f"  It is what comes out of the loop, such as {{'output': {{'class': 'copy', 'from': {example!r}}}}}."
        )
    if not inputs.has_known_length and "end" not in unit:
        raise ConfigError(
            f"{layer.where()}: it is not known how many frames there are.\n"
            "  Give a source (option 'from'), a target, or a layer 'end' in the unit."
        )
    has_end = not inputs.has_known_length
    need_last = {name for name, desc in unit.items() if isinstance(desc, Mapping) and desc.get("need_last")}
    net_dict = layer.network.get_root_network().layers_desc
    states = find_states_asked_for(net_dict, layer.name, inputs.unit_of_config) | need_last
    wanted = [
        "output",
        *(["end"] if has_end else []),
        *_find_wanted(unit, searches=bool(layer.network.search_flag)),
        *sorted(states),
    ]
    return TimeStep(unit, tuple(dict.fromkeys(wanted)), frozenset(states), has_end)


def _find_wanted(descriptions: Mapping[str, Any], *, searches: bool, prefix: str = "") -> Iterator[str]:
    """:return: paths of layers that say themselves that they are needed; also of those in subnetworks with losses"""
    for name, desc in descriptions.items():
        if name.startswith("#") or not isinstance(desc, Mapping):
            continue
        if desc.get("only_on_search") and not searches:
            continue
        has_loss = desc.get("loss") is not None
        if has_loss or (not prefix and (desc.get("is_output_layer") or desc.get("need_last"))):
            yield prefix + name
        if desc.get("class") == "subnetwork":
            yield from _find_wanted(desc.get("subnetwork") or {}, searches=searches, prefix=f"{prefix}{name}/")


def describe(path: str, descriptions: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    :param path: of a layer of the time step
    :param descriptions: of the layers of the time step
    :return: its options; none if they do not say any
    """
    desc: Any = {"subnetwork": descriptions}
    for part in path.split("/"):
        inner = desc.get("unit") if desc.get("class") == "masked_computation" else desc
        layers = inner.get("subnetwork") if isinstance(inner, Mapping) else None
        desc = layers.get(part) if isinstance(layers, Mapping) else None
        if not isinstance(desc, Mapping):
            return {}
    return desc


def name_in_step(name: str, path: str) -> str:
    """
    :param name: of a layer, as another one names it for its initial output or state
    :param path: of that one, which can be in subnetworks of the time step
    :return: the same as the time step names it. Each "base:" is one network further out
    """
    around = path.split("/")[:-1]
    while around and name.startswith("base:"):
        around.pop()
        name = name.removeprefix("base:")
    return "/".join([*around, name])


def owner_of_state(path: str, descriptions: Mapping[str, Any]) -> str:
    """
    :param path: of a layer of the time step
    :param descriptions: of the layers of the time step
    :return: path of the layer whose hidden state it has: for a subnetwork, its layer "output"
    """
    while True:
        desc = describe(path, descriptions)
        unit = desc.get("unit") if desc.get("class") == "masked_computation" else desc
        if not isinstance(unit, Mapping) or unit.get("class") != "subnetwork":
            return path
        path = f"{path}/output"


def find_states_asked_for(net_dict: Mapping[str, Any], loop_name: str, unit: Mapping[str, Any]) -> set[str]:
    """
    :param net_dict: of the outermost network
    :param loop_name: name of the loop, in its own network
    :param unit: its time step
    :return: paths of layers in there whose last hidden state may be used outside
    """
    found = set()
    for name in _find_names_of_states(net_dict, unit):
        parts = name.rpartition(":")[2].split("/")
        if loop_name in parts:
            found.add("/".join(parts[parts.index(loop_name) + 1 :]) or "output")
    found = {path for path in found if path.partition("/")[0] in unit}
    return found | {owner_of_state(path, unit) for path in found}


def _find_names_of_states(desc: Any, unit: Mapping[str, Any]) -> Iterator[str]:
    """:return: names of layers in `desc` whose hidden state is used, beside those in the unit itself"""
    if not isinstance(desc, Mapping) or desc is unit:
        return
    keys = ["initial_state", "state"]
    if desc.get("class") == "get_last_hidden_state":
        keys.append("from")
    for key, value in desc.items():
        if key in keys:
            yield from _find_strings(value)
        yield from _find_names_of_states(value, unit)


def _find_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _find_strings(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _find_strings(item)
