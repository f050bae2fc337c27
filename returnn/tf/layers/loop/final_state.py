"""
What is left of a loop behind its end: the hidden states of its layers, after the last frame of each sequence.

A state that somebody outside asks for is kept for all frames, as its sequence may end in any of them. Who asks is read
from the net dict, as the loop is compiled before those that use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase, WrappedInternalLayer
from returnn.tf.layers.loop.prev_layer import owner_of_state
from returnn.tf.layers.loop.time_axis import on_beam_of


def asked_for_states(net_dict: Mapping[str, Any], loop_name: str, unit: Mapping[str, Any]) -> set[str]:
    """
    :param net_dict: of the outermost network
    :param loop_name: name of the loop, in its own network
    :param unit: its time step
    :return: paths of layers in there whose last hidden state may be used outside
    """
    found = set()
    for name in _names_of_states(net_dict, unit):
        parts = name.rpartition(":")[2].split("/")
        if loop_name in parts:
            found.add("/".join(parts[parts.index(loop_name) + 1 :]) or "output")
    found = {path for path in found if path.partition("/")[0] in unit}
    return found | {owner_of_state(path, unit) for path in found}


def _names_of_states(desc: Any, unit: Mapping[str, Any]) -> Iterator[str]:
    """:return: names of layers in `desc` whose hidden state is used, beside those in the unit itself"""
    if not isinstance(desc, Mapping) or desc is unit:
        return
    keys = (
        ["initial_state", "state", "from"]
        if desc.get("class") == "get_last_hidden_state"
        else ["initial_state", "state"]
    )
    for key, value in desc.items():
        if key in keys:
            yield from _strings(value)
        yield from _names_of_states(value, unit)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)


class KeptFrames(InternalLayer):
    """All frames of a layer inside of a loop, also those of its hidden state, as far as they are kept."""

    def __init__(self, time_dim: Dim, states: dict[str, Tensor], initial: dict[str, Tensor], **kwargs: Any) -> None:
        """
        :param time_dim: of the loop
        :param states: {time_dim, ...}, by name
        :param initial: the same before the first frame, without the dim
        """
        super().__init__(**kwargs)
        self.time_dim = time_dim
        self.states = states
        self.initial = initial

    def has_hidden_state(self) -> bool:
        """:return: whether one was kept"""
        return bool(self.states)

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [T, ..., F] each: after each frame"""
        return self.states or super().hidden_state_parts()

    def last_hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [..., F] each: after the last frame"""
        parts = {k: last_frame(x, self.time_dim, self.initial[k]) for k, x in self.states.items()}
        return self.final_state(parts, self.time_dim.get_size_tensor())


class LayerBehindLoop(WrappedInternalLayer):
    """All frames of a layer inside of a loop, as seen from outside: its hidden state is the last one."""

    def has_hidden_state(self) -> bool:
        """:return: True"""
        return True

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [..., F] each: after the last frame of each sequence"""
        return self.base_layer.last_hidden_state_parts()

    def get_last_hidden_state(self, key: int | str | None) -> Any:
        """:return: raw: after the last frame of each sequence"""
        return LayerBase.get_last_hidden_state(self, key)


class TemplateBehindLoop(InternalLayer):
    """The same while only dims are inferred."""

    def __init__(self, states: dict[str, Tensor], **kwargs: Any) -> None:
        """
        :param states: [..., F] each, templates
        """
        super().__init__(**kwargs)
        self.states = states

    def has_hidden_state(self) -> bool:
        """:return: whether the layer has one"""
        return bool(self.states)

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [..., F] each"""
        return self.states or super().hidden_state_parts()


def last_frame(frames: Tensor, time_dim: Dim, initial: Tensor) -> Tensor:
    """
    :param frames: {time_dim, ...}
    :param time_dim: a dim
    :param initial: [...], for sequences without frames
    :return: [...]: the last frame of each sequence
    """
    lengths = time_dim.get_size_tensor()
    position = rf.maximum(lengths - 1, 0)
    out = rf.gather(frames, indices=position, axis=time_dim, clip_to_valid=True)
    initial = on_beam_of(initial, out)
    out = rf.where(rf.compare(lengths, ">", 0), out, initial, allow_broadcast_all_sources=True)
    out.feature_dim = frames.feature_dim
    return out
