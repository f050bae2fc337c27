"""A loss whose value and gradient other layers have computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.broadcasting import matched_by_size
from returnn.tf.util.grad import loss_with_error_signal
from returnn.util.errors import ConfigError


class ViaLayerLoss(Loss):
    """
    The value is the `output_loss` of another layer, such as "fast_bw". The gradient is the output of that layer, or the
    difference between the output and that layer.
    """

    class_name = "via_layer"
    recurrent = True
    need_target = False

    def __init__(
        self,
        error_signal_layer: LayerBase | None = None,
        align_layer: LayerBase | None = None,
        loss_wrt_to_act_in: bool | str = False,
        **kwargs: Any,
    ) -> None:
        """
        :param error_signal_layer: layer with the gradient
        :param align_layer: layer with a soft alignment: the gradient is output - alignment
        :param loss_wrt_to_act_in: it is the gradient of what is before the activation function. If this is a name, such
            as "softmax", the function has to be this one
        """
        super().__init__(**kwargs)
        if (error_signal_layer is None) == (align_layer is None):
            raise ConfigError(
                "loss 'via_layer': one of the options 'error_signal_layer' and 'align_layer' is required."
            )
        self.error_signal_layer = error_signal_layer
        self.align_layer = align_layer
        self.loss_wrt_to_act_in = loss_wrt_to_act_in

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `Loss.transform_config_dict`."""
        super().transform_config_dict(d, network=network, get_layer=get_layer)
        for key in ("error_signal_layer", "align_layer"):
            if isinstance(d.get(key), str):
                d[key] = get_layer(d[key])

    def get_value(self) -> Any:
        """:return: raw scalar"""
        layer = self.error_signal_layer or self.align_layer
        assert layer is not None
        loss = layer.output_loss
        if loss is None:
            raise ConfigError(f"{self.where()}: {layer.where()} has no output_loss.")
        value = self.reduce(loss) if isinstance(loss, Tensor) else self.reduce_func(loss)
        x = self._what_the_gradient_is_of()
        error_signal = self._error_signal(layer).copy_masked(0.0)
        return loss_with_error_signal(value, x.raw_tensor, error_signal.copy_compatible_to_dims_raw(x.dims))

    def error_per_frame(self) -> Tensor | None:
        """:return: [B, T]: whether target and output differ, if there is a target"""
        return None if self.target is None else super().error_per_frame()

    def _error_signal(self, layer: LayerBase) -> Tensor:
        _, signal = matched_by_size([self.output, layer.output], apart=())
        unknown = [dim for dim in signal.dims if dim not in self.output.dims]
        if unknown:
            raise ConfigError(f"{self.where()}: {layer.output} has other dims than the output {self.output}.")
        return signal if self.align_layer is None else self.output - signal

    def _what_the_gradient_is_of(self) -> Tensor:
        if not self.loss_wrt_to_act_in:
            return self.output
        act = self.output_with_activation
        if act is None or act.before is None:
            raise ConfigError(f"{self.where()}: 'loss_wrt_to_act_in': the activation function is not known.")
        if isinstance(self.loss_wrt_to_act_in, str) and act.name != self.loss_wrt_to_act_in:
            raise ConfigError(
                f"{self.where()}: 'loss_wrt_to_act_in' is {self.loss_wrt_to_act_in!r}, but the activation function is "
                f"{act.name!r}."
            )
        return act.before
