"""Activation functions, and gates which they open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.util.activations import OutputWithActivation, apply_activation
from returnn.util.errors import ConfigError


class ActivationLayer(_ConcatInputLayer):
    """An activation function on each element of the source."""

    layer_class = "activation"

    def __init__(
        self, activation: str | Callable[..., Any] | None, opts: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """
        :param activation: such as "relu"; an expression such as "2.0 * sigmoid"; or a function on raw tensors
        :param opts: more arguments for the function
        """
        super().__init__(**kwargs)
        self.activation = activation
        self.opts = opts or {}

    def compute(self, source: Tensor) -> Tensor:
        """:return: the dims of the source"""
        self.output_before_activation = OutputWithActivation(source, self.activation, self.opts)
        return self.output_before_activation.after


class GatingLayer(_ConcatInputLayer):
    """
    `activation(a) * gate_activation(b)`, with the halves a, b of the feature dim (Dauphin et al. 2017).

    Source [..., 2 * F], output [..., F].
    """

    layer_class = "gating"

    def __init__(
        self,
        activation: str | None,
        gate_activation: str = "sigmoid",
        out_dim: Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param activation: on the first half
        :param gate_activation: on the second half
        :param out_dim: dim of a half
        """
        super().__init__(out_dim=out_dim, **kwargs)
        self.activation = activation
        self.gate_activation = gate_activation

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F]"""
        axis = self.feature_dim_of(source)
        if axis.dimension is not None and axis.dimension % 2:
            raise ConfigError(f"{self.where()}: the feature dim of the source {source} cannot be divided into halves.")
        half = self.output_feature_dim(axis.div_right(2))
        output, _ = rf.gating(
            source,
            axis=axis,
            act_func=lambda x: apply_activation(x, self.activation),
            gate_func=lambda x: apply_activation(x, self.gate_activation),
            out_dim=half,
        )
        return output.copy_with_roles(feature_dim=half)
