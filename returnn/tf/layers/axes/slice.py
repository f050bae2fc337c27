"""A part of the frames."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class SliceLayer(_ConcatInputLayer):
    """
    A part of a dim, as in `x[start:end:step]`. Negative positions count from the end of each sequence.

    Source [..., axis], output [..., shorter axis].
    """

    layer_class = "slice"

    def __init__(
        self,
        axis: Any,
        slice_start: int | None = None,
        slice_end: int | None = None,
        slice_step: int | None = None,
        out_dim: Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description
        :param slice_start: first frame; default: 0
        :param slice_end: the frame behind the last one; default: the end
        :param slice_step: distance of the frames; negative: backwards
        :param out_dim: the new dim
        """
        super().__init__(out_dim=out_dim, **kwargs)
        self.axis = axis
        self.slice_start = slice_start
        self.slice_end = slice_end
        self.slice_step = slice_step
        if slice_step == 0:
            raise ConfigError(f"{self.where()}: option 'slice_step' is 0.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., shorter axis]"""
        axis = self.dim_of(source, self.axis, option="axis")
        start, end, step = self.slice_start, self.slice_end, self.slice_step
        if step is not None and step < 0:
            source = rf.reverse_sequence(source, axis=axis)
            start, end = (None if x is None else -1 - x for x in (start, end))  # as counted from the other end
            step = -step
        out, _ = rf.slice(source, axis=axis, start=start, end=end, step=step, out_dim=self._out_dim)
        return out
