"""What a layer keeps from one frame of a loop to the next, and what is not known of it yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError


@dataclass(frozen=True)
class StateTemplate:
    """One part of the state of a layer: what it looks like, and what it is before the first frame."""

    template: Tensor
    initial: Any = 0  # number, "zeros", "ones", tensor, layer, or function without arguments
    is_hidden_state: bool = False  # others can ask for it. Otherwise the class of the layer says for which parts


@dataclass(frozen=True)
class ForAfterLoop:
    """The initial value of a state that no frame reads. The sum over all frames goes to `LayerBase.after_loop`."""

    of_parameters: bool = False  # layers with the same parameters have it together, such as a running mean

    def __call__(self) -> int:
        """:return: what there is before the first frame"""
        return 0


@dataclass(frozen=True)
class GrowingInitial:
    """The initial value, without entries, of a state that can have one more entry in each frame."""

    grown: Dim | None = field(default=None, kw_only=True)  # the dim with the entry of the frame; all frames know it


class LayerNeedsItself(ConfigError):
    """A layer is asked for while it is being made."""


class FramesNotKept(ConfigError):
    """The output of a layer in a loop is not known outside. Its parameters are."""

    def __init__(self, message: str, layer: Any) -> None:
        super().__init__(message)
        self.layer = layer


class UndefinedSource(ConfigError):
    """The template of a layer is not known yet; whoever asked for it may do without it, in this round."""

    @property
    def is_about_past(self) -> bool:
        """Whether all of it comes from an unknown past, and nothing from a layer which may be wrong."""
        cause = self.__cause__
        return cause is None or (isinstance(cause, UndefinedSource) and cause.is_about_past)
