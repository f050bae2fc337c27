"""`SearchChoices`: what a search chose, as a layer knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from returnn.tensor import Tensor
from returnn.tensor.batch_info import SearchBeam

if TYPE_CHECKING:
    from returnn.tf.layers.layer_base import LayerBase


class SearchChoices:
    """The hypotheses after a choice: their scores, and which ones they continue."""

    def __init__(self, owner: LayerBase, beam_size: int, is_decided: bool = False, keep_raw: bool = False) -> None:
        """
        :param owner: the layer that made the choice
        :param beam_size: number of hypotheses
        :param is_decided: whether there is only one left
        :param keep_raw: whether the outputs of each step stay as they were at that step
        """
        self.owner = owner
        self.beam_size = beam_size
        self.is_decided = is_decided
        self.keep_raw = keep_raw
        self.scores: Tensor | None = None
        self.sources: Tensor | None = None

    def __repr__(self) -> str:
        return f"<SearchChoices {self.owner.get_absolute_name()!r} beam_size={self.beam_size}>"

    def set_tensors(self, scores: Tensor, src_beams: Tensor | None) -> None:
        """
        :param scores: [B, beam]
        :param src_beams: [B, beam] -> beam before
        """
        self.scores, self.sources = scores, src_beams

    @property
    def beam_scores(self) -> Any:
        """Raw (B, beam)."""
        return None if self.scores is None else self.scores.copy_as_batch_major().raw_tensor

    @property
    def src_beams(self) -> Any:
        """Raw (B, beam): index of the hypothesis that is continued."""
        return None if self.sources is None else self.sources.copy_as_batch_major().raw_tensor

    @property
    def src_layer(self) -> LayerBase | None:
        """The layer that made the choice before this one."""
        return self.owner.network.get_search_choices(sources=self.owner.sources)

    def get_beam_info(self) -> SearchBeam:
        """:return: name and size"""
        return SearchBeam(self.beam_size, name=self.owner.get_absolute_name())
