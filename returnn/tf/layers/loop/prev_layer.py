"""`PrevLayer`: a layer of a loop in the frame before, which a name with "prev:" means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import InternalLayer
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.step_state import StateTemplate
from returnn.tf.layers.loop.time_step import TimeStep
from returnn.tf.layers.options.registry import get_layer_class
from returnn.tf.layers.search.search_choices import SearchChoices


class PrevLayer(InternalLayer):
    """A layer of a loop in the frame before. It has its hidden state, too, and the hypotheses of that frame."""

    def __init__(
        self, find_state_names: Callable[[], tuple[str, ...]], state_before: Callable[[str], Tensor], **kwargs: Any
    ) -> None:
        """
        :param find_state_names: function that gives the parts of the hidden state; none if there is no hidden state
        :param state_before: function of such a name: state after the frame before
        """
        super().__init__(**kwargs)
        self.find_state_names = find_state_names
        self.state_before = state_before
        self.search_choices = self._choices_before()

    def _choices_before(self) -> SearchChoices | None:
        """:return: the hypotheses of the frame before, None if the output has none"""
        beam = self.network.beams.of(self.output)
        if beam is None or beam.dim.dimension is None:
            return None
        choices = SearchChoices(self, beam.dim.dimension, is_decided=beam.is_kept, keep_raw=beam.is_kept)
        choices.beam = beam
        return choices

    def has_hidden_state(self) -> bool:
        """:return: whether the layer has one"""
        return bool(self.find_state_names())

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: state after the frame before, by name"""
        names = self.find_state_names()
        return {name: self.state_before(name) for name in names} if names else super().hidden_state_parts()


def hidden_state_names(step: TimeStep, path: str, states: Mapping[str, StateTemplate]) -> tuple[str, ...]:
    """
    :param step: of a loop
    :param path: of a layer in there
    :param states: of the layer that has the state
    :return: parts of its hidden state
    """
    desc = dict(step.describe(step.owner_of_state(path)))
    of_class = get_layer_class(desc["class"]).cls_hidden_state_names(desc) if "class" in desc else ()
    own = tuple(name for name, state in states.items() if state.is_hidden_state)
    return (*of_class, *own)


def make_prev_template(
    step: TimeStep,
    network: Network,
    path: str,
    template: Tensor,
    find_states: Callable[[str], Mapping[str, StateTemplate]],
) -> PrevLayer:
    """
    :param step: of a loop
    :param network: for a frame of it, in which dims are inferred
    :param path: of a layer in there
    :param template: what it looked like in the frame before
    :param find_states: function of the path of a layer: what it kept in the frame before. Where a class says by itself
        which parts its hidden state has, nobody asks
    :return: the layer that "prev:" means
    """
    owner = step.owner_of_state(path)
    of_class = hidden_state_names(step, path, {})
    return PrevLayer(
        name=f"prev:{path}",
        network=network,
        output=template.copy_template(),
        find_state_names=lambda: of_class or hidden_state_names(step, path, find_states(owner)),
        state_before=lambda name: (template if of_class else find_states(owner)[name].template).copy_template(),
    )


def make_stand_in(network: Network, name: str, template: Tensor) -> InternalLayer:
    """
    :param network: for a frame of a loop, in which dims are inferred
    :param name: of a layer in there which cannot be made yet
    :param template: what it may look like
    :return: what others can use in its place
    """
    return InternalLayer(name=name, network=network, output=template)
