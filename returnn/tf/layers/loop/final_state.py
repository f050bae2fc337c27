"""What is left of a loop behind its end: the hidden states of its layers, after the last frame of each sequence."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase, WrappedInternalLayer
from returnn.tf.layers.search.beam import Beams


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
        parts = {k: last_frame(x, self.time_dim, self.initial[k], self.network.beams) for k, x in self.states.items()}
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


def last_frame(frames: Tensor, time_dim: Dim, initial: Tensor, beams: Beams) -> Tensor:
    """
    :param frames: {time_dim, ...}
    :param time_dim: a dim
    :param initial: [...], for sequences without frames
    :param beams: of the network
    :return: [...]: the last frame of each sequence, or hypothesis
    """
    lengths = time_dim.get_size_tensor()
    frames = beams.translate(frames, beams.of(lengths))
    position = rf.maximum(lengths - 1, 0)
    out = rf.gather(frames, indices=position, axis=time_dim, clip_to_valid=True)
    initial = beams.before_first_frame(initial, out)
    out = rf.where(rf.compare(lengths, ">", 0), out, initial, allow_broadcast_all_sources=True)
    return out.copy_with_roles(feature_dim=frames.feature_dim)
