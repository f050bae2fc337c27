"""What the parts of a choice (candidates, scores, variants) may ask of the layer that chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from returnn.tensor import Dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network


class ChoosingLayer(Protocol):
    """A layer with the options of `ChoiceLayer`, where they are explained."""

    network: Network
    sources: list[LayerBase]
    targets: list[str] | None
    beam_size: int | None
    input_type: str
    prob_scale: float
    base_beam_score_scale: float
    random_sample_scale: float
    length_normalization: bool
    length_normalization_exponent: float
    keep_beams: bool
    source_beam_sizes: Sequence[int] | None
    cheating: bool | str
    custom_score_combine: Callable[..., Any] | None
    explicit_search_sources: list[LayerBase] | dict[Any, LayerBase] | None

    def where(self) -> str:
        """:return: the layer, for error messages"""

    def new_dim(self, key: str, size: int | None = None, *, auto_generated: bool | None = None) -> Dim:
        """:return: the same dim for the same key"""
