"""Layers about gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.copy import CopyLayer, with_extra_deps
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.options.broadcasting import matched_by_size
from returnn.tf.util.grad import scaled_gradient
from returnn.tf.util.losses.meta_losses import MetaLosses
from returnn.util.errors import ConfigError


class GradientLayer(_ConcatInputLayer):
    """
    The gradient of the sum of a layer by another one.

    Output: the dims of `x`.
    """

    layer_class = "gradient"

    def __init__(self, y: LayerBase, x: LayerBase, **kwargs: Any) -> None:
        """
        :param y: what is differentiated
        :param x: by this
        """
        super().__init__(**kwargs)
        self.y = y
        self.x = x

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """There are no sources. See `LayerBase.transform_config_dict`."""
        d["from"] = []
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    def compute_inputs(self) -> list[Tensor]:
        """:return: nothing"""
        return []

    def compute(self) -> Tensor:
        """:return: {...}: the dims of x"""
        x, y = self.x.output, self.y.output
        output = x.copy_template()
        if x.raw_tensor is None or y.raw_tensor is None:
            return output
        total = rf.reduce_sum(y, axis=y.dims) if y.dims else y
        (gradient,) = tf.gradients(total.raw_tensor, [x.raw_tensor])
        if gradient is None:
            raise ConfigError(f"{self.where()}: {self.y.where()} does not depend on {self.x.where()}.")
        output.raw_tensor = tf.convert_to_tensor(gradient)
        return output


class ScaledGradientLayer(CopyLayer):
    """
    The source; its gradient is scaled.

    A scale of 0 stops the gradient, a negative one reverses it (Ganin & Lempitsky 2015).
    """

    layer_class = "scaled_grad"

    def __init__(
        self,
        scale: float | LayerBase,
        shift: float | LayerBase | None = None,
        scale_shift_by_sum_over_axis: str | Dim | None = None,
        clip_max_axis: str | Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param scale: factor, or layer with factors
        :param shift: number, or layer with numbers, which is added to the scaled gradient
        :param scale_shift_by_sum_over_axis: the shift is first multiplied by the sum of the absolute gradient
            over this dim
        :param clip_max_axis: no entry of the result becomes larger than the largest one of the gradient before, over
            this dim, both without sign
        """
        super().__init__(**kwargs)
        self.scale = scale
        self.shift = shift
        self.scale_shift_by_sum_over_axis = scale_shift_by_sum_over_axis
        self.clip_max_axis = clip_max_axis

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source"""
        output = with_extra_deps(source, self.extra_deps).copy()
        if output.raw_tensor is not None:
            output.raw_tensor = scaled_gradient(
                output.raw_tensor,
                scale=self._factor(self.scale, source),
                shift=self._factor(self.shift, source),
                scale_shift_by_sum_over_axis=self._axis(
                    self.scale_shift_by_sum_over_axis, source, option="scale_shift_by_sum_over_axis"
                ),
                clip_max_axis=self._axis(self.clip_max_axis, source, option="clip_max_axis"),
            )
        return output

    def _factor(self, value: float | LayerBase | None, source: Tensor) -> Any:
        if not isinstance(value, LayerBase):
            return value
        _, factor = matched_by_size([source, value.output], apart=self.network.get_all_rec_time_dims())
        unknown = [str(dim) for dim in factor.dims if dim not in source.dims]
        if unknown:
            raise ConfigError(f"{self.where()}: {value.where()} has {', '.join(unknown)}, but the source is {source}.")
        return factor.copy_compatible_to_dims_raw(source.dims)

    def _axis(self, axis: str | Dim | None, source: Tensor, *, option: str) -> int | None:
        return None if axis is None else source.get_axis_from_description(self.dim_of(source, axis, option=option))


class SyntheticGradientLayer(_ConcatInputLayer):
    """
    The source; its gradient is what another layer predicts (Jaderberg et al. 2016, "Decoupled neural interfaces").

    The other layer learns to predict the gradient, by the mean of the squared difference to the real one. Frames beyond
    the end of a sequence do not count; in a loop, or moved out of it, they have no gradient.
    """

    layer_class = "synthetic_gradient"

    def __init__(self, gradient: LayerBase, meta_loss_scale: float = 1.0, **kwargs: Any) -> None:
        """
        :param gradient: layer that predicts the gradient
        :param meta_loss_scale: scale of the loss of that layer
        """
        super().__init__(**kwargs)
        self.gradient = gradient
        self.meta_loss_scale = meta_loss_scale

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source"""
        output = source.copy()
        _, gradient = matched_by_size([source, self.gradient.output], apart=self.network.get_all_rec_time_dims())
        if set(gradient.dims) != set(source.dims):
            raise ConfigError(f"{self.where()}: the gradient {gradient} has other dims than the source {source}.")
        if source.raw_tensor is not None:
            output.raw_tensor = MetaLosses.synthetic_gradient(
                source.raw_tensor,
                gradient.copy_compatible_to_dims_raw(source.dims),
                loss_scale=self.meta_loss_scale,
                loss_name=f"{self.get_absolute_name()}_synthetic_gradient",
                loss_source=self,
                weights=_weights(self, source),
                only_valid=self.network.step.innermost_frame() is not None,  # recorded: outside of loops, all count
            )
        return output


class TikhonovRegularizationLayer(CopyLayer):
    """The source; the objective gets the mean of its squared gradient (Bishop 1995)."""

    layer_class = "tikhonov_regularization"

    def __init__(self, meta_loss_scale: float = 1.0, **kwargs: Any) -> None:
        """
        :param meta_loss_scale: scale of it
        """
        super().__init__(**kwargs)
        self.meta_loss_scale = meta_loss_scale

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source"""
        dummy = self.parameter("dummy", [], initial=0.0, trainable=True, saveable=False, noise=False)
        output = with_extra_deps(source, self.extra_deps).copy()
        if output.raw_tensor is not None:
            output.raw_tensor = MetaLosses.tikhonov_regularized(
                output.raw_tensor,
                dummy.raw_tensor,
                loss_scale=self.meta_loss_scale,
                loss_name=f"{self.get_absolute_name()}_tikhonov",
                loss_source=self,
                weights=_weights(self, source),
            )
        return output


def _weights(layer: LayerBase, x: Tensor) -> tf.Tensor:
    """:return: raw, like x: 1 for the entries which belong to a sequence, that goes on in a loop; 0 for others"""
    masks = [rf.sequence_mask(dim) for dim in x.dims if dim.need_masking()]
    frame = layer.network.step.innermost_frame()
    going_on = None if frame is None else frame.going_on()
    if going_on is not None:
        further = [dim for dim in going_on.dims if dim not in x.dims]
        masks.append(rf.reduce_any(going_on, axis=further) if further else going_on)
    weights = rf.ones(x.dims, dtype=x.dtype)
    for mask in masks:
        weights = rf.where(mask, weights, 0.0)
    return weights.copy_compatible_to_dims_raw(x.dims)
