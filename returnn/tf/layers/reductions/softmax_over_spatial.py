"""Softmax over the frames of a sequence, as for attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.copy import DropoutLayer
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.option_values import number_of
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.values.ranges import frame_numbers
from returnn.util.errors import ConfigError


class SoftmaxOverSpatialLayer(_ConcatInputLayer):
    """
    Softmax over the frames of each sequence, where frames can be left out.

    Source [..., T], output the same dims. What is left out is 0, in log space -inf.
    """

    layer_class = "softmax_over_spatial"
    recurrent = True  # it depends on all frames

    def __init__(
        self,
        axis: Any = None,
        energy_factor: float | None = None,
        start: LayerBase | None = None,
        window_start: LayerBase | int | None = None,
        window_size: LayerBase | int | None = None,
        use_time_mask: bool | None = None,
        log_space: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description. Default: "T"
        :param energy_factor: the source is multiplied by it before
        :param start: [B], first frame that is not left out
        :param window_start: first frame of the window outside of which frames are left out
        :param window_size: number of frames in the window
        :param use_time_mask: leave out frames beyond the end of their sequence, which is the default
        :param log_space: the logarithm of the softmax
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.energy_factor = energy_factor
        self.start = start
        self.window_start = window_start
        self.window_size = window_size
        self.use_time_mask = use_time_mask is not False
        self.normalized_dim: Dim | None = None
        self.log_space = log_space
        if window_size is not None and window_start is None:
            raise ConfigError(f"{self.where()}: the option 'window_size' needs the option 'window_start'.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: the same dims"""
        axis = self.dim_of(source, "T" if self.axis is None else self.axis, option="axis")
        self.normalized_dim = axis
        if axis.size == 1:
            self.warning = f"{self.where()}: a softmax over a single entry is always 1. Option 'axis' is {axis}."
        if self.energy_factor is not None:
            source = source * self.energy_factor
        is_left_in = mask_of_window(axis, self.start, self.window_start, self.window_size)
        if is_left_in is not None:
            source = rf.where(is_left_in, source, -float("inf"), allow_broadcast_all_sources=True)
        softmax = rf.log_softmax if self.log_space else rf.softmax
        out = softmax(source, axis=axis, use_mask=self.use_time_mask)
        if is_left_in is None:
            return out
        return rf.where(is_left_in, out, -float("inf") if self.log_space else 0.0)  # also where nothing is left in


def other_sum_warning(layer: LayerBase, weights: LayerBase, reduce: Sequence[Dim]) -> str | None:
    """
    :param layer: which sums over `reduce`
    :param weights: one of its factors
    :param reduce: dims of the weights
    :return: for people, if these are attention weights whose sum over another dim is 1
    """
    source = weights
    while isinstance(source, DropoutLayer) and len(source.sources) == 1:
        source = source.sources[0]
    dim = source.normalized_dim if isinstance(source, SoftmaxOverSpatialLayer) else None
    if dim is None or dim.size == 1 or dim in reduce or dim not in weights.output.dims:
        return None
    return (
        f"{layer.where()}: sums over {', '.join(map(str, reduce))}, but the weights {source.name!r} are a softmax over "
        f"{dim}, so the ones in a sum are not 1 together. Options: 'axis' of {source.name!r}, or the dims of the sum."
    )


def mask_of_window(
    axis: Dim,
    start: LayerBase | None,
    window_start: LayerBase | int | None,
    window_size: LayerBase | int | None,
) -> Tensor | None:
    """
    :param axis: the frames
    :param start: layer: first frame
    :param window_start: layer or number: first frame of the window
    :param window_size: layer or number: number of frames in the window
    :return: [..., axis], bool, whether a frame is inside; None if all are
    """
    if start is None and window_start is None:
        return None
    frames = frame_numbers(axis)
    first, window_first, size = (number_of(option) for option in (start, window_start, window_size))
    conditions = []
    if first is not None:
        conditions.append(rf.compare_bc(frames, ">=", first))
    if window_first is not None:
        conditions.append(rf.compare_bc(frames, ">=", window_first))
        behind = None if size is None else rf.combine_bc(window_first, "+", size)
        conditions += [] if behind is None else [rf.compare_bc(frames, "<", behind)]
    mask = None
    for condition in conditions:
        mask = condition if mask is None else rf.combine_bc(mask, "logical_and", condition)
    return mask
