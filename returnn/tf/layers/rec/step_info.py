"""The number of the current frame of a loop, as a layer: ":i"."""

from __future__ import annotations

import functools
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase


class RecStepInfoLayer(LayerBase):
    """
    Number of the current frame, from 0 on: int32, a scalar. Outside of the loop, for all frames: [T].

    With `use_global_rec_step_offset` of the loop, the output goes on from the batch before; `index` does not.
    """

    layer_class = ":i"

    def __init__(
        self,
        i: Any = None,
        prev_end_flag: Any = None,
        prev_end_layer: Any = None,
        seq_lens: Any = None,
        offset: Tensor | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param i: number of the frame: tensor, or raw scalar
        :param prev_end_flag: raw (B,): whether the sequence had ended before
        :param prev_end_layer: the layer "prev:end"
        :param seq_lens: raw (B,): lengths, if they are known
        :param offset: scalar: number of the first frame
        """
        super().__init__(**kwargs)
        self.step = i
        self._prev_end_flag = prev_end_flag
        self.prev_end_layer = prev_end_layer
        self.seq_lens = seq_lens
        self.offset = offset

    def compute(self) -> Tensor:
        """:return: int32"""
        if self.offset is None:
            return self.index
        index = self.index.copy_with_roles(sparse_dim=None)
        return rf.combine_bc(index, "+", self.offset)

    @functools.cached_property
    def index(self) -> Tensor:
        """int32: number of the frame in this loop, from 0 on."""
        if isinstance(self.step, Tensor):
            return self.step
        if self.step is None:
            return Tensor(":i", dims=(), dtype="int32")
        return rf.convert_to_tensor(self.step, dims=(), dtype="int32")

    def get_prev_end_flag(self, target_search_choices: Any) -> Any:
        """
        :param target_search_choices: the result is for the hypotheses after this choice
        :return: raw (B,) or (B * beam,): whether the sequence had ended before this frame; None if that cannot be
        """
        if self._prev_end_flag is not None:
            return self._prev_end_flag
        frame = self.network.step.innermost_frame()
        ended = self.prev_end_layer.output if self.prev_end_layer is not None else frame and frame.ended_before()
        if ended is None or ended.raw_tensor is None:
            return None
        beams = self.network.beams
        if target_search_choices is not None:
            ended = beams.translate(ended, target_search_choices.beam)
        beam = beams.of(ended)
        if beam is None:
            return ended.raw_tensor
        return ended.copy_merge_into_batch([ended.batch_dim_axis, ended.dims.index(beam.dim)]).raw_tensor
