"""Sinusoids that say where in the sequence a frame is (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from typing import Any

import numpy

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.loop.history import frames_before, masks_around
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

_LONGEST_WAVE = 1e4  # in frames, divided by 2 pi


class PositionalEncodingLayer(_ConcatInputLayer):
    """
    An encoding of the position of each frame, as in Tensor2Tensor: sines, then cosines, of geometrically growing
    wave lengths.

    Source [..., T, F_in], output [..., T, F]. Inside of a loop, a source without time dim is the frame of this step.
    """

    layer_class = "positional_encoding"
    recurrent = True

    def __init__(
        self,
        axis: Any = NotSpecified,
        add_to_input: bool = False,
        constant: int = -1,
        offset: LayerBase | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the frames, by description. Default: the time dim; if there is none, the loop around
        :param add_to_input: output the sum with the source; the feature dim is the one of the source then
        :param constant: if not negative, this position for all frames
        :param offset: [B] or [B, T], added to the positions
        """
        super().__init__(**kwargs)
        self.axis = "T" if axis is NotSpecified else axis
        self.add_to_input = add_to_input
        self.constant = constant
        self.offset = offset

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T, F]"""
        position = self._position(source)
        feature = self._feature_dim(source)
        encoding = sinusoids(position, feature)
        if self.add_to_input:
            out = rf.combine_bc(source, "+", encoding)
        else:
            out = rf.expand_to(encoding, [dim for dim in source.dims if dim != source.feature_dim])
        return out.copy_with_roles(feature_dim=feature)

    def _position(self, source: Tensor) -> Tensor:
        """:return: int32, {T}, or {B, T} with an offset; a scalar for a single frame"""
        axis, is_frame = self.sequence_dim_of(source, self.axis, option="axis")
        step = self.network.get_rec_step_info(must_exist=False)
        of_step = step is not None and step.output.dims == (() if is_frame else (axis,))
        position = self._position_of_step(step.output) if of_step else rf.range_over_dim(axis)
        position = position.copy_with_roles(sparse_dim=None)
        if self.constant >= 0:
            position = position * 0 + self.constant
        if self.offset is not None:
            if not self.offset.output.dtype.startswith(("int", "uint")):
                offset = self.offset.output
                raise ConfigError(f"{self.where()}: option 'offset': expected integers, got {offset} {offset.dtype}.")
            position = rf.combine_bc(position, "+", rf.cast(self.offset.output, "int32"))
        return position

    def _position_of_step(self, step: Tensor) -> Tensor:
        """:return: number of the step; where a mask leaves out some, of the frames so far, as for all frames at once"""
        return frames_before(self) if masks_around(self) else step

    def _feature_dim(self, source: Tensor) -> Dim:
        if not self.add_to_input:
            return self.output_feature_dim(source.feature_dim)
        if source.feature_dim is None:
            raise ConfigError(f"{self.where()}: option 'add_to_input': the source {source} has no feature dim.")
        return source.feature_dim


def sinusoids(position: Tensor, feature: Dim) -> Tensor:
    """
    :param position: {...}, int, in frames
    :param feature: F, of known size
    :return: {..., F}: `sin(p w[i])` in the first half, `cos(p w[i])` in the second one, 0 at the end if F is odd, where
        `w` falls geometrically from 1 to 1e-4
    """
    size, half = feature.dimension, feature.dimension // 2
    frequencies = numpy.exp(numpy.arange(half) * -(math.log(_LONGEST_WAVE) / max(half - 1, 1)))
    frequencies = numpy.pad(numpy.tile(frequencies, 2), (0, size % 2)).astype(rf.get_default_float_dtype())
    is_cosine = (numpy.arange(size) >= half) & (numpy.arange(size) < 2 * half)
    angle = rf.combine_bc(
        rf.cast(position, rf.get_default_float_dtype()), "*", rf.convert_to_tensor(frequencies, dims=[feature])
    )
    out = rf.where(rf.convert_to_tensor(is_cosine, dims=[feature]), rf.cos(angle), rf.sin(angle))
    return out.copy_with_roles(feature_dim=feature)
