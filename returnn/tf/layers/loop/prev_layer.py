"""`PrevLayer`: a layer of a loop in the frame before, which a name with "prev:" means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import InternalLayer
from returnn.tf.layers.core.step_state import StateTemplate
from returnn.tf.layers.loop.infer import description_of
from returnn.tf.layers.options.registry import get_layer_class


class PrevLayer(InternalLayer):
    """A layer of a loop in the frame before. It has the hidden state of the layer, too."""

    def __init__(self, state_names: tuple[str, ...], state_before: Callable[[str], Tensor], **kwargs: Any) -> None:
        """
        :param state_names: parts of the hidden state; none if the layer has no hidden state
        :param state_before: function of such a name: state after the frame before
        """
        super().__init__(**kwargs)
        self.state_names = state_names
        self.state_before = state_before

    def has_hidden_state(self) -> bool:
        """:return: whether the layer has one"""
        return bool(self.state_names)

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: state after the frame before, by name"""
        if not self.state_names:
            return super().hidden_state_parts()
        return {name: self.state_before(name) for name in self.state_names}


def hidden_state_names(
    path: str, descriptions: Mapping[str, Any], states: Mapping[str, StateTemplate] | None = None
) -> tuple[str, ...]:
    """
    :param path: of a layer in a loop
    :param descriptions: options of the layers of the time step
    :param states: of the layer that has the state, as far as they are known
    :return: parts of its hidden state
    """
    desc = dict(description_of(owner_of_state(path, descriptions), descriptions))
    of_class = get_layer_class(desc["class"]).cls_hidden_state_names(desc) if "class" in desc else ()
    own = tuple(name for name, state in (states or {}).items() if state.is_hidden_state)
    return (*of_class, *own)


def owner_of_state(path: str, descriptions: Mapping[str, Any]) -> str:
    """
    :param path: of a layer in a loop
    :param descriptions: options of the layers of the time step
    :return: path of the layer whose hidden state it has: for a subnetwork, its layer "output"
    """
    while True:
        desc = description_of(path, descriptions)
        unit = desc.get("unit") if desc.get("class") == "masked_computation" else desc
        if not isinstance(unit, Mapping) or unit.get("class") != "subnetwork":
            return path
        path = f"{path}/output"
