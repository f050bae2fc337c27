"""
What a network computes with its parameters, as far as net dicts can be compared, see `KnownData`.

A config that is edited between a training and a search may fit to the parameters still, and give other numbers. So a
training notes options which are the same in all tasks, such as activations and strides. What a search may have
otherwise, such as beams, losses and dropout, is not looked at, nor what a layer of a loop takes as source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from returnn.engine.net_dicts import NetDict

DefaultOf = Callable[[Any, str], Any]  # class of a layer, option -> default; None: not known

_OPTIONS = (
    "activation",
    "attention_left_only",
    "dilation_rate",
    "direction",
    "epsilon",
    "kind",
    "mode",
    "num_heads",
    "padding",
    "pool_size",
    "strides",
    "use_time_mask",
    "with_bias",
)
_SAME = {"avg": "mean", "log_softmax": "softmax"}  # for the latter, whoever writes outputs may want either
_SOURCES = "from"
_MAX_DIFFERENCES = 5


@dataclass(frozen=True)
class NetworkIdentity:
    """The network of one epoch."""

    epoch: int | None  # None: of all epochs
    behavior_version: int
    layers: dict[str, dict[str, Any]]  # by absolute name: class, sources and options, as JSON has them

    @classmethod
    def of(
        cls, net_dict: NetDict, *, epoch: int | None, behavior_version: int, default_of: DefaultOf
    ) -> NetworkIdentity:
        """
        :param net_dict: the network
        :param epoch: of which it is; None: of all
        :param behavior_version: of the config
        :param default_of: what holds where a layer does not have an option
        """
        return cls(epoch, behavior_version, dict(_layers(net_dict, default_of)))

    def differences(self, now: NetworkIdentity, *, params: Collection[str]) -> list[str]:
        """
        :param now: what the same parameters are used in
        :param params: names of the trained parameters
        :return: for each thing that was another one in the training, a text
        """
        if self.epoch != now.epoch:  # then it may be another one
            return []
        found = []
        if self.behavior_version != now.behavior_version:
            found.append(f"option 'behavior_version': was {self.behavior_version}, and is {now.behavior_version}")
        for name in self.layers.keys() & now.layers.keys():
            before, after = self.layers[name], now.layers[name]
            if before["class"] != after["class"]:
                continue
            where = f"layer {name!r} (class {after['class']!r})"
            for option in sorted((before.keys() & after.keys()) - {"class"}):
                if before[option] == after[option]:
                    continue
                change = f"{where}: option {option!r}: was {before[option]!r}, and is {after[option]!r}"
                if option != _SOURCES:
                    found.append(change)
                elif gone := [source for source in before[option] if self._is_gone(name, source, now, params)]:
                    found.append(f"{change}. There is no layer {gone[0]!r} now, which has trained parameters")
        found.sort()
        more = f"{len(found) - _MAX_DIFFERENCES} more differences"
        return found if len(found) <= _MAX_DIFFERENCES + 1 else [*found[:_MAX_DIFFERENCES], more]

    def _is_gone(self, name: str, source: str, now: NetworkIdentity, params: Collection[str]) -> bool:
        full_name = f"{name.rpartition('/')[0]}/{source}".lstrip("/")
        is_gone = full_name in self.layers and full_name not in now.layers
        return is_gone and any(param.startswith(f"{full_name}/") for param in params)


def _layers(
    net_dict: Mapping[str, Any], default_of: DefaultOf, *, prefix: str = "", is_in_loop: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, desc in net_dict.items():
        if not isinstance(desc, Mapping) or "class" not in desc or name.startswith("#"):
            continue
        yield prefix + name, _comparable(desc, default_of, with_sources=not is_in_loop)
        for option, value in desc.items():
            if isinstance(value, Mapping):  # a network inside of the layer, or one layer
                is_layer = "class" in value
                yield from _layers(
                    {option: value} if is_layer else value,
                    default_of,
                    prefix=f"{prefix}{name}/",
                    is_in_loop=is_in_loop or option == "unit",
                )


def _comparable(desc: Mapping[str, Any], default_of: DefaultOf, *, with_sources: bool) -> dict[str, Any]:
    found = {"class": str(desc["class"])}
    for option in _OPTIONS:
        value = desc.get(option)
        value = _plain(default_of(desc["class"], option) if value is None else value)
        if value is not None:
            found[option] = value
    sources = desc.get(_SOURCES)
    sources = [sources] if isinstance(sources, str) else sources
    if with_sources and isinstance(sources, Sequence) and all(isinstance(source, str) for source in sources):
        found[_SOURCES] = list(sources)
    return found


def _plain(value: Any) -> Any:
    """:return: the same for what means the same; None for what cannot be compared, such as functions"""
    if isinstance(value, str):
        return _SAME.get(value.lower(), value.lower())
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)) and value:
        items = [_plain(item) for item in value]
        if any(item is None for item in items):
            return None
        return items[0] if all(item == items[0] for item in items) else items
    return None
