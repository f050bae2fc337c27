"""Sums over all frames so far."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class CumsumLayer(_ConcatInputLayer):
    """
    The sum of all frames up to each one: `output[t] = x[0] + ... + x[t]`. In a loop, also of texts.

    Source [..., T], output the same dims. Inside of a loop, over its frames: source [...], one frame; output the same.
    """

    layer_class = "cumsum"
    recurrent = True

    def __init__(
        self,
        axis: Any = "T",
        additional_left_summand_per_element: str | float | None = None,
        reverse: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description
        :param additional_left_summand_per_element: is added to each frame; in a loop, texts can be joined: in front of
            each one
        :param reverse: from the end of each sequence
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.additional_left_summand_per_element = additional_left_summand_per_element
        self.reverse = reverse

    def must_be_in_loop(self) -> str:
        """:return: a reason, if the sum begins with something, or is one of texts"""
        if any(source.output.dtype == "string" for source in self.sources):
            return "joins texts"
        return "begins with its initial output" if self._initial_output not in (None, 0) else ""

    def looks_ahead(self) -> bool:
        """:return: whether it adds up what is behind each frame"""
        return self.reverse

    def compute(self, source: Tensor) -> Tensor:
        """:return: the same dims"""
        axis, is_frame = self.sequence_dim_of(source, self.axis, option="axis")
        if self.additional_left_summand_per_element is not None:
            source = rf.combine_bc(self._summand(source), "+", source)
        labels = source.sparse_dim
        out = self._next(source) if is_frame else self._of_all_frames(source, axis)
        return out.copy_with_roles(sparse_dim=labels)

    def _summand(self, source: Tensor) -> Any:
        summand, is_text = self.additional_left_summand_per_element, source.dtype == "string"
        if is_text != isinstance(summand, str):
            expected = "a text" if is_text else "a number"
            raise ConfigError(
                f"{self.where()}: option 'additional_left_summand_per_element': expected {expected}, as the source is\n"
                f"  {source}, not {summand!r}."
            )
        return rf.convert_to_tensor(summand, dims=(), dtype="string") if is_text else summand

    def _of_all_frames(self, source: Tensor, axis: Dim) -> Tensor:
        if source.dtype == "string":
            raise ConfigError(f"{self.where()}: the texts of {source} can be joined in a loop alone, frame by frame.")
        source = rf.expand_to(source, [axis])
        if not self.reverse:
            return rf.cumsum(source, spatial_dim=axis)
        from_end = rf.cumsum(rf.reverse_sequence(source, axis=axis), spatial_dim=axis)
        return rf.reverse_sequence(from_end, axis=axis)

    def _next(self, frame: Tensor) -> Tensor:
        """:return: the sum with this frame of the loop"""
        if self.reverse and rf.get_selected_backend() == "template":
            return frame.copy_template()  # it can be for all frames at once
        if self.reverse:
            raise ConfigError(
                f"{self.where()}: option 'reverse': in a loop, frame by frame, those to come are not known.\n"
                "  It is possible for all frames at once, if nothing that it depends on needs the frame before."
            )
        initial = 0 if self._initial_output is None else self._initial_output
        total = self.previous_state("state", frame, initial=initial) + frame
        self.new_state("state", total)
        return total
