"""
What layers keep of all frames of a loop, where the loop only knows a layer that they are inside of: one of the layers
of a "cond", or of the time step of a loop in the loop.

What is kept (`LayerRec.keep_for_after_loop`) is a sum over frames. So it can be handed from layer to layer: what is not
computed adds a zero, a loop inside adds up its frames. Behind the outermost loop, each layer gets its own
(`LayerRec.after_loop`). So it does not know whether it was in one loop, or in several with conditions in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.layers.core.step_state import ForAfterLoop, StateTemplate

_PREFIX = "inside "  # of the names of what is kept for others


class InnerTotals:
    """What a layer keeps for layers inside of it."""

    def __init__(self, owner: LayerBase) -> None:
        """
        :param owner: the layer that the others are inside of, and that the loop knows
        """
        self.owner = owner
        self._informed: list[LayerBase] = []  # layers inside which got their totals
        self._receivers: dict[str, tuple[LayerBase, str]] = {}  # layer and key, by name
        self._of_parameters: set[str] = set()  # names, see `ForAfterLoop`

    def taken_from(self, layer: LayerBase, place: str, shared_place: str = "") -> dict[str, Tensor]:
        """
        :param layer: inside. It keeps nothing for after the loop any more
        :param place: says which layer it is
        :param shared_place: the same for what is about parameters, if other layers may share them
        :return: what it kept, by name; also on templates
        """
        kept = {key: x for key, x in layer.state_templates.items() if isinstance(x.initial, ForAfterLoop)}
        found = {}
        for key, state in kept.items():
            name = self._named(shared_place if shared_place and state.initial.of_parameters else place, key, state)
            self._receivers.setdefault(name, (layer, key))
            found[name] = layer.new_states.pop(key)
            del layer.state_templates[key]
        return found

    def of_layer(self, layer: LayerBase, place: str, states: Mapping[str, StateTemplate]) -> dict[str, str]:
        """
        :param layer: inside
        :param place: says which layer it is
        :param states: what it keeps
        :return: names, by key of what is kept for after the loop
        """
        names = {k: self._named(place, k, x) for k, x in states.items() if isinstance(x.initial, ForAfterLoop)}
        self._receivers.update((name, (layer, key)) for key, name in names.items())
        return names

    def _named(self, place: str, key: str, state: StateTemplate) -> str:
        name = f"{_PREFIX}{place}: {key}"
        if state.initial.of_parameters:
            self._of_parameters.add(name)
        return name

    @contextlib.contextmanager
    def making(self, *places: str, is_all_inside: bool = True) -> Iterator[None]:
        """
        While layers inside are made.

        :param places: of these
        :param is_all_inside: otherwise, it is only about the one that has the path of the owner
        """
        frame = self.owner.network.step.innermost_frame()
        if frame is None:
            yield
            return
        path = frame.path_of(self.owner.get_absolute_name())
        frame.layers_with_others_inside.append((path, places, is_all_inside))
        try:
            yield
        finally:
            frame.layers_with_others_inside.pop()

    def completed(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """
        :param values: by name
        :return: with zeros for all else that was declared, on templates
        """
        result = {}
        for name, state in self._declared().items():
            if name.startswith(_PREFIX):
                dims, dtype = state.template.dims, state.template.dtype
                result[name] = _in_order(values[name], dims) if name in values else rf.zeros(dims, dtype=dtype)
                self._of_parameters |= {name} if state.initial.of_parameters else set()
        return result

    def _declared(self) -> dict[str, StateTemplate]:
        """:return: what the owner keeps, as the loop knows it, or a layer that the owner is inside of"""
        frame = self.owner.network.step.innermost_frame()
        if frame is None:
            return {}
        path = frame.path_of(self.owner.get_absolute_name())
        prefixes, inner = [], path  # of the names by which those around know what the owner keeps, the innermost first
        for outer, places, is_all_inside in reversed(frame.layers_with_others_inside):
            if inner == outer or (is_all_inside and inner.startswith(f"{outer}/")):
                prefixes.append([f"{_PREFIX}{place}{inner.removeprefix(outer)}: " for place in places])
                inner = outer
        declared = frame.kept_for_after_loop(inner)
        for several in reversed(prefixes):
            declared = {k.removeprefix(p): x for k, x in declared.items() for p in several if k.startswith(p)}
        return declared

    def keep(self, values: Mapping[str, Tensor]) -> None:
        """
        :param values: of this frame, by name; also templates
        """
        for name, value in values.items():
            self.owner.keep_for_after_loop(name, value, of_parameters=name in self._of_parameters)

    def hand_on(self, totals: Mapping[str, Tensor]) -> None:
        """
        :param totals: what the layer got behind the loop. Each layer inside gets what it kept
        """
        of_layers: dict[int, tuple[LayerBase, dict[str, Tensor]]] = {}
        for name, total in totals.items():
            if name in self._receivers:
                layer, key = self._receivers[name]
                of_layers.setdefault(id(layer), (layer, {}))[1][key] = total
        for layer, own in of_layers.values():
            layer.after_loop(own)
            self._informed.append(layer)

    def losses(self) -> list[LossHolder]:
        """:return: losses of the layers inside, of all frames, named by their path from the network of the owner"""
        around = self.owner.network.get_absolute_name_prefix()
        found = []
        for layer in self._informed:  # it may be in a subnetwork, which the loop does not know as a layer
            path = layer.network.get_absolute_name_prefix().removeprefix(around)
            for loss in layer.losses_after_loop():
                loss.name = f"{path}{loss.name}"
                found.append(loss)
        return found

    def constraints(self) -> Any:
        """:return: raw scalar, for the layers inside"""
        return sum(layer.constraints_after_loop() for layer in self._informed)


def _in_order(x: Tensor, dims: Sequence[Dim]) -> Tensor:
    return rf.expand_to(x, dims).copy_transpose(dims)
