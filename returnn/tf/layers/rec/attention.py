"""Attention: a weighted sum over the frames of an encoder."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.reductions.softmax_over_spatial import other_sum_warning
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError


class AttentionBaseLayer(_ConcatInputLayer):
    """Base class: `sum_t weights[t] * base[t]`. Output [..., F] of the base."""

    def __init__(self, base: LayerBase, **kwargs: Any) -> None:
        """
        :param base: [B, T, F], what is attended to
        """
        super().__init__(**kwargs)
        self.base = base
        self.base_weights: Tensor | None = None
        self._time_dim: Dim | None = None

    def time_dim(self) -> Dim:
        """:return: T, the frames of the base. In a loop, those that it has in a frame of the loop"""
        if self._time_dim is None:
            self._time_dim = self.same_as_in_frame("base", "T", lambda: [self.base.output.get_time_dim_tag()])[0]
        return self._time_dim

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """
        :param weights: {T, ...}, 0 beyond the end of a sequence
        :return: [..., F]
        """
        self.base_weights = weights
        base = self.base.output
        # Padded frames have the weight 0, but 0 times NaN is NaN. Masking is done outside of the loop, once.
        out = rf.matmul(weights, masked_once(self.base), reduce=self.time_dim(), use_mask=False)
        if base.feature_dim is not None and base.feature_dim in out.dims:
            out = out.copy_with_roles(feature_dim=base.feature_dim)
        return out

    def get_base_weights(self) -> Any:
        """:return: raw (B, T), the weights; None if there are none"""
        return None if self.base_weights is None else self.base_weights.copy_as_batch_major().raw_tensor

    def get_base_weight_last_frame(self) -> Any:
        """:return: raw (B,), the weight of the last frame of each sequence"""
        assert self.base_weights is not None
        last = rf.last_frame_position_of_dim(self.time_dim())
        return rf.gather(self.base_weights, indices=last, axis=self.time_dim(), clip_to_valid=True).raw_tensor


class GlobalAttentionContextBaseLayer(AttentionBaseLayer):
    """Base class: the weights are a softmax over the similarity of the source to each frame of `base_ctx`."""

    def __init__(self, base_ctx: LayerBase, **kwargs: Any) -> None:
        """
        :param base_ctx: [B, T, F_key], what the source is compared with
        """
        super().__init__(**kwargs)
        self.base_ctx = base_ctx

    def energy(self, source: Tensor, context: Tensor) -> Tensor:
        """:return: {T, ...}, the similarity"""
        raise TypeError(f"{type(self).__name__} defines no energy")

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F]"""
        energy = self.energy(source, self.base_ctx.output)
        return self.weighted_sum(rf.softmax(energy, axis=self.time_dim()))

    def key_dim(self, source: Tensor, context: Tensor) -> tuple[Tensor, Dim]:
        """:return: source with the feature dim of the context, and that dim"""
        own, key = source.feature_dim, context.feature_dim
        if own is None or key is None or own.dimension != key.dimension:
            raise ConfigError(f"{self.where()}: the feature dims differ: source {source}, base_ctx {context}.")
        if own != key:
            source, _ = rf.replace_dim(source, in_dim=own, out_dim=key)
        return source, key


class GenericAttentionLayer(AttentionBaseLayer):
    """
    Weighted sum of the frames of the base, by given weights.

    `base` [B, T, F], `weights` {T, ...}, output [..., F]. Further dims which both have are matched. The feature dim of
    the base is not, in behavior version 0: weights [B, T, F] give [B, F', F], each feature weighted by each.
    """

    layer_class = "generic_attention"
    recurrent = True  # it sees all frames of the base

    def __init__(self, weights: LayerBase, auto_squeeze: bool = True, **kwargs: Any) -> None:
        """
        :param weights: {T, ...}; 0 beyond the end of a sequence, as "softmax_over_spatial" gives it
        :param auto_squeeze: dims of size 1 of the weights are removed
        """
        super().__init__(**kwargs)
        self.weights = weights
        self.auto_squeeze = auto_squeeze
        if self.sources:
            raise ConfigError(f"{self.where()}: takes no sources (option 'from'), only 'base' and 'weights'.")

    def compute_inputs(self) -> list[Tensor]:
        """:return: nothing"""
        return []

    def compute(self) -> Tensor:
        """:return: [..., F]"""
        weights = self.weights.output
        base = self.base.output
        if self.time_dim() not in weights.dims:
            raise ConfigError(f"{self.where()}: the weights {weights} do not have the time dim of the base {base}.")
        self.warning = other_sum_warning(self, self.weights, [self.time_dim()])
        if self.auto_squeeze:
            for dim in [d for d in weights.dims if d.dimension == 1 and not d.is_batch_dim() and not d.is_beam_dim()]:
                weights = rf.squeeze(weights, axis=dim)
        weights = _with_dims_of(self._with_own_feature_dim(weights, base.feature_dim), base)
        return self.weighted_sum(weights)

    def _with_own_feature_dim(self, weights: Tensor, feature: Dim | None) -> Tensor:
        if BehaviorVersion.get() > 0 or feature is None or feature not in weights.dims:
            return weights
        own = self.new_dim("feature of the weights", feature.dimension, kind=feature.kind, auto_generated=False)
        return rf.replace_dim(weights, in_dim=feature, out_dim=own)[0]


class DotAttentionLayer(GlobalAttentionContextBaseLayer):
    """The similarity is the dot product (Luong et al. 2015). `base_ctx` has as many features as the source."""

    layer_class = "dot_attention"

    def __init__(self, energy_factor: float | None = None, **kwargs: Any) -> None:
        """
        :param energy_factor: the similarity is multiplied by it; 1/sqrt(F_key) in Vaswani et al. 2017
        """
        super().__init__(**kwargs)
        self.energy_factor = energy_factor

    def energy(self, source: Tensor, context: Tensor) -> Tensor:
        """:return: {T, ...}"""
        source, key = self.key_dim(source, context)
        energy = rf.matmul(source, context, reduce=key, use_mask=False)
        return energy if self.energy_factor is None else energy * self.energy_factor


class ConcatAttentionLayer(GlobalAttentionContextBaseLayer):
    """The similarity is `v . tanh(source + base_ctx)` (Bahdanau et al. 2015). Parameter `v`: [F_key]."""

    layer_class = "concat_attention"

    def energy(self, source: Tensor, context: Tensor) -> Tensor:
        """:return: {T, ...}"""
        source, key = self.key_dim(source, context)
        return rf.matmul(rf.tanh(rf.combine_bc(source, "+", context)), self.parameter("v", [key]), reduce=key)


class GaussWindowAttentionLayer(AttentionBaseLayer):
    """
    The weights are a Gaussian around a location, over a window of frames. The source is the location, in frames.

    Source [...], or [..., 1]; output [..., F], with `inner_size` [..., inner, F].
    """

    layer_class = "gauss_window_attention"

    def __init__(
        self,
        window_size: int,
        std: float = 1.0,
        inner_size: int | None = None,
        inner_size_step: float = 0.5,
        **kwargs: Any,
    ) -> None:
        """
        :param window_size: number of frames with a weight above 0
        :param std: standard deviation, in frames
        :param inner_size: the same for so many locations around the given one, over the same window
        :param inner_size_step: distance between these, in frames
        """
        super().__init__(**kwargs)
        self.window_size = window_size
        self.std = std
        self.inner_size = inner_size
        self.inner_size_step = inner_size_step

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F]"""
        location = source
        if location.feature_dim is not None and location.feature_dim.dimension == 1:
            location = rf.squeeze(location, axis=location.feature_dim)
        base, time = self.base.output, self.time_dim()
        window = self.new_dim("window", self.window_size)
        first = rf.cast(rf.round(location), "int32") - self.window_size // 2
        frames = rf.combine_bc(first, "+", _numbers(window))
        if self.inner_size is not None:
            location = rf.combine_bc(location, "+", self._offsets(location.dtype))
        last = rf.last_frame_position_of_dim(time)
        clipped = rf.combine_bc(rf.maximum(frames, 0), "minimum", last).copy_with_roles(sparse_dim=time)
        distance = rf.combine_bc(rf.cast(frames, location.dtype), "-", location)
        weights = rf.exp(-0.5 * rf.square(distance / self.std)) / (self.std * (2 * 3.141592653589793) ** 0.5)
        out = rf.matmul(weights, rf.gather(base, indices=clipped, axis=time), reduce=window)
        if base.feature_dim is not None:
            out = out.copy_with_roles(feature_dim=base.feature_dim)
        return out

    def _offsets(self, dtype: str) -> Tensor:
        """:return: [inner], in frames"""
        inner = self.new_dim("inner", self.inner_size)
        return (rf.cast(_numbers(inner), dtype) - (self.inner_size - 1) / 2) * self.inner_size_step


def masked_once(layer: LayerBase) -> Tensor:
    """
    :param layer: outside of the loop, usually
    :return: its output with zeros beyond the ends of the sequences, computed next to the output itself, once
    """
    output = layer.output
    if get_selected_backend() == "template" or output.raw_tensor is None:
        return output
    known = getattr(layer, "_masked_output", None)
    if known is None or known[0] is not output:
        with output.raw_tensor.graph.as_default():
            known = (output, output.copy_masked(0))
        layer._masked_output = known  # type: ignore[attr-defined]
    return known[1]


def _numbers(dim: Dim) -> Tensor:
    return rf.range_over_dim(dim).copy_with_roles(sparse_dim=None)


def _with_dims_of(weights: Tensor, base: Tensor) -> Tensor:
    """:return: weights, where a dim such as the attention heads is the one of the base of the same size"""
    others = [d for d in base.dims if d not in weights.dims and d != base.feature_dim]
    free = [d for d in others if d.dimension is not None and not d.is_beam_dim()]
    for dim in [d for d in weights.dims if d not in base.dims and d.dimension is not None and not d.is_beam_dim()]:
        same = [d for d in free if d.dimension == dim.dimension]
        if len(same) == 1:
            weights, _ = rf.replace_dim(weights, in_dim=dim, out_dim=same[0])
    return weights
