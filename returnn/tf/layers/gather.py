"""Entries by their index."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.layer_base import LayerBase
from returnn.tf.layers.sources import _ConcatInputLayer


class GatherLayer(_ConcatInputLayer):
    """
    Entries of a dim, by their index: `output[b, t, f] = source[b, position[b, t], f]`.

    Source [B..., axis, ...], position [B..., T...]; dims that both have, other than the axis, are matched.
    Output [B..., T..., ...].
    """

    layer_class = "gather"

    def __init__(self, position: LayerBase | int, axis: Any, clip_to_valid: bool = False, **kwargs: Any) -> None:
        """
        :param position: indices into the dim; a number for all
        :param axis: the dim, by description
        :param clip_to_valid: bring the indices into the range of the sequence, instead of an error
        """
        super().__init__(**kwargs)
        self.position = position
        self.axis = axis
        self.clip_to_valid = clip_to_valid

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B..., T..., ...]"""
        axis = self.dim_of(source, self.axis)
        position = self.position.output if isinstance(self.position, LayerBase) else self.position
        return rf.gather(source, indices=position, axis=axis, clip_to_valid=self.clip_to_valid)
