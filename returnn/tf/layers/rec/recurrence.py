"""`Recurrence`: what a recurrent layer does, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.loop.emit import EmittedLoop


class Recurrence(Protocol):
    """
    A recurrence over frames: by a unit (`UnitRecurrence`), or by a loop over a subnetwork (`LoopRecurrence`).

    A layer has one of them, and hands on to it what depends on that.
    """

    @property
    def compiled(self) -> CompiledLoop | None:
        """The loop over layers, as soon as its dims are known."""

    @property
    def emitted(self) -> EmittedLoop | None:
        """The same in the graph."""

    @property
    def needs_source(self) -> bool:
        """Whether it cannot do without a source."""

    def compute(self, source: Tensor | None) -> Tensor:
        """
        :param source: {time, ...}; or {...}, a single step
        :return: [time, ..., F], or [..., F]
        """

    def has_hidden_state(self) -> bool:
        """:return: whether there is a state that other layers can use"""

    def hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [..., F] each, by name: see `LayerBase.hidden_state_parts`"""

    def last_hidden_state_parts(self) -> dict[str, Tensor]:
        """:return: [..., F] each, by name: state after the last frame of each sequence"""

    def get_sub_layer(self, name: str) -> LayerBase | None:
        """:return: layer inside, for all frames; None if there is no such"""

    def get_sub_layers(self) -> list[LayerBase]:
        """:return: the layers inside which are known for all frames"""

    def get_sub_networks(self) -> list[Network]:
        """:return: the networks inside"""

    def get_base_layers(self) -> list[LayerBase]:
        """:return: layers around that are used inside, beside the sources"""

    def get_losses(self, reduce_func: Callable[[Any], Any] | None) -> list[Any]:
        """:return: losses of the layers inside, named by their path"""

    def get_constraints_value(self) -> Any:
        """:return: raw scalar, of the layers inside"""

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """See `LayerBase.after_loop`."""

    def losses_after_loop(self) -> list[Any]:
        """:return: losses of the layers inside, of all frames of the loops around"""

    def constraints_after_loop(self) -> Any:
        """:return: raw scalar: the same of constraints"""
