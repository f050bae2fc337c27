"""All frames of a loop so far, as the base for self-attention on them."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim import single_step_dim
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.loop.history import all_with_past, with_past
from returnn.util.errors import ConfigError


class CumConcatLayer(_ConcatInputLayer):
    """
    All frames of the loop up to the current one, along a new dim.

    Source [...], one frame; output [H, ...], where H has t + 1 entries in step t. Where the layer is moved out of the
    loop: source [T, ...], output [H, ...], where H has the lengths [T], so that T is there all the same.
    """

    layer_class = "cum_concat"
    recurrent = True

    def __init__(self, out_spatial_dim: Dim, axis: Any = None, **kwargs: Any) -> None:
        """
        :param out_spatial_dim: H, the new dim
        :param axis: the dim to go over: the one of the loop, or `single_step_dim`, which means the same
        """
        super().__init__(**kwargs)
        self.out_spatial_dim = out_spatial_dim
        self.axis = axis

    def compute(self, source: Tensor) -> Tensor:
        """:return: [H, ...]"""
        loop = self.network.get_inside_rec_time_dim(inside_loop=False)
        if loop is None or self.axis not in (None, single_step_dim, loop):
            raise ConfigError(
                f"{self.where()}: collects the frames of a loop, and has to be inside of one.\n"
                f"  Option 'axis' is {self.axis!s}; possible: None, single_step_dim, or the dim of the loop."
            )
        if self.network.get_inside_rec_time_dim(inside_loop=True) is not None:
            out = with_past(self, "state", source, out_dim=self.out_spatial_dim)
        else:
            frames = rf.expand_to(source, [loop])
            out = all_with_past(frames, axis=loop, out_dim=self.out_spatial_dim)
        return out.copy_with_roles(feature_dim=source.feature_dim)
