"""Normalization: mean 0 and variance 1, over the batch or over dims of each frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.frontend._backend import get_backend_of
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.copy import CopyLayer, with_extra_deps
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

Unset = type[NotSpecified]


class BatchNormLayer(CopyLayer):
    """
    Batch normalization: mean 0 and variance 1 for each entry of the feature dim, over all other dims.

    Source [..., F], output the same. See the option `batch_norm` of all layers.
    """

    layer_class = "batch_norm"
    keeps_zeros = False

    def __init__(
        self,
        in_dim: Dim | None = None,
        use_shift: bool | Unset = NotSpecified,
        use_std: bool | Unset = NotSpecified,
        use_sample: float | Unset = NotSpecified,
        force_sample: bool | Unset = NotSpecified,
        momentum: float | Unset = NotSpecified,
        epsilon: float | Unset = NotSpecified,
        update_sample_only_in_training: bool | Unset = NotSpecified,
        delay_sample_update: bool | Unset = NotSpecified,
        param_version: int | Unset = NotSpecified,
        gamma_init: Any = NotSpecified,
        beta_init: Any = NotSpecified,
        masked_time: bool | Unset = NotSpecified,
        **kwargs: Any,
    ) -> None:
        """
        :param in_dim: which dim of the source is the feature dim
        :param use_shift: whether there is a trained `beta` [F], which is added. Default: True
        :param use_std: whether there is a trained `gamma` [F], which it is multiplied by. Default: True
        :param use_sample: in training, use this much of the running mean and variance, default 0
        :param force_sample: so also outside of training, where else there is only the running mean and variance
        :param momentum: how much of the batch goes into the running values. Default: 0.1; 0.99 before version 12
        :param epsilon: added to the variance, default 0.001
        :param update_sample_only_in_training: the running values change only then. Default: since behavior version 12
        :param delay_sample_update: they change after the step; otherwise before they are used. Default: since 12
        :param param_version: 0, 1 or 2: names and shapes of the parameters. Default: 2; 0 before behavior version 12
        :param gamma_init: initial value of `gamma`, default 1
        :param beta_init: initial value of `beta`, default 0
        :param masked_time: padded frames do not count. Has to be given since behavior version 12, before: True
        """
        super().__init__(in_dim=in_dim, **kwargs)
        options = {
            "use_shift": use_shift,
            "use_std": use_std,
            "use_sample": use_sample,
            "force_sample": force_sample,
            "momentum": momentum,
            "epsilon": epsilon,
            "update_sample_only_in_training": update_sample_only_in_training,
            "delay_sample_update": delay_sample_update,
            "param_version": param_version,
            "gamma_init": gamma_init,
            "beta_init": beta_init,
            "masked_time": masked_time,
        }
        if isinstance(self.use_batch_norm, dict):
            options.update(self.use_batch_norm)
        self.options = {name: value for name, value in options.items() if value is not NotSpecified}

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F]"""
        return self.batch_normalized(with_extra_deps(source, self.extra_deps), **self.options)


class LayerNormLayer(_ConcatInputLayer):
    """
    Layer normalization (Ba et al. 2016): mean 0 and variance 1 over the feature dim, then scaled and shifted.

    Source [..., F], output the same. Parameters `scale`, `bias`: [F].
    """

    layer_class = "layer_norm"
    keeps_feature_dim = True

    def __init__(
        self, in_dim: Dim | None = None, out_dim: Dim | None = None, epsilon: float = 1e-6, **kwargs: Any
    ) -> None:
        """
        :param in_dim: which dim of the source is the feature dim
        :param out_dim: the same one
        :param epsilon: added to the variance
        """
        super().__init__(in_dim=in_dim, out_dim=out_dim, **kwargs)
        self.epsilon = epsilon

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F]"""
        return normalize_with_params(self, source, axes=[self.feature_dim_of(source)], epsilon=self.epsilon)


class NormLayer(_ConcatInputLayer):
    """
    Mean 0 and variance 1 over any dims, then scaled and shifted for each entry of the feature dim. Padded frames count.

    Source [..., F], output the same. Parameters `scale`, `bias`: [F], or another shape.
    """

    layer_class = "norm"

    def __init__(
        self,
        axis: str | Dim | Sequence[Any] | Unset = NotSpecified,
        axes: str | Dim | Sequence[Any] | Unset = NotSpecified,
        param_shape: Any = NotSpecified,
        scale: bool = True,
        bias: bool = True,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dims to normalize over
        :param axes: the same
        :param param_shape: dims of the parameters, as dim or description, or several. Default: the feature dim
        :param scale: whether there is a trained `scale`
        :param bias: whether there is a trained `bias`
        :param epsilon: added to the variance
        """
        super().__init__(**kwargs)
        if (axis is NotSpecified) == (axes is NotSpecified):
            raise ConfigError(f"{self.where()}: one of the options 'axis' and 'axes' is required.")
        self.axis = axes if axis is NotSpecified else axis
        self.axis_option = "axes" if axis is NotSpecified else "axis"
        self.param_shape = param_shape
        self.scale = scale
        self.bias = bias
        self.epsilon = epsilon

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F]"""
        axes = self.dims_of(source, self.axis, option=self.axis_option)
        return normalize_with_params(
            self,
            source,
            axes=axes,
            epsilon=self.epsilon,
            params=self._param_dims(source),
            scale=self.scale,
            bias=self.bias,
            use_mask=False,
        )

    def _param_dims(self, source: Tensor) -> list[Dim]:
        if self.param_shape is NotSpecified:
            return [self.feature_dim_of(source)]
        shape = self.param_shape if isinstance(self.param_shape, (list, tuple)) else [self.param_shape]
        return [self.dim_of(source, dim, option="param_shape") for dim in shape]


def normalize_with_params(
    layer: LayerBase,
    x: Tensor,
    *,
    axes: Sequence[Dim],
    epsilon: float,
    params: Sequence[Dim] | None = None,
    scale: bool = True,
    bias: bool = True,
    use_mask: bool = True,
) -> Tensor:
    """
    :param layer: that the parameters `scale` and `bias` belong to
    :param x: {..., axes}
    :param axes: to normalize over
    :param epsilon: added to the variance
    :param params: dims of the parameters; default: `axes`
    :param scale: whether there is that parameter
    :param bias: whether there is that parameter
    :param use_mask: whether padded frames do not count
    :return: x with mean 0 and variance 1 over `axes`, then scaled and shifted
    """
    params = axes if params is None else params
    has_all = scale and bias and list(axes) == list(params)
    if has_all and (use_mask or not any(dim.is_dynamic() for dim in axes)):
        parameters = {"scale": layer.parameter("scale", params, initial=1.0)}
        parameters["bias"] = layer.parameter("bias", params, initial=0.0)
        return get_backend_of(x).layer_norm(x, in_dims=axes, **parameters, epsilon=epsilon)
    mean = rf.reduce_mean(x, axis=axes, use_mask=use_mask)
    variance = rf.reduce_mean(rf.squared_difference(x, mean), axis=axes, use_mask=use_mask)
    output = (x - mean) * rf.rsqrt(variance + epsilon)
    if scale:
        output = rf.combine_bc(output, "*", layer.parameter("scale", params, initial=1.0))
    if bias:
        output = rf.combine_bc(output, "+", layer.parameter("bias", params, initial=0.0))
    return output.copy_transpose(x.dims) if set(output.dims) == set(x.dims) else output
