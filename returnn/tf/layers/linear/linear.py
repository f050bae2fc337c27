"""Linear transformations."""

from __future__ import annotations

from typing import Any, ClassVar

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.util.activations import OutputWithActivation
from returnn.tf.util.grad import filter_grad


class LinearLayer(_ConcatInputLayer):
    """
    `y = activation(x W + b)`.

    Source [..., F_in], output [..., F_out]. Parameters `W`: [F_in, F_out] and `b`: [F_out]. For sparse data it is an
    embedding: the row of `W` for each label.
    """

    layer_class: ClassVar[str | tuple[str, ...] | None] = ("linear", "hidden", "forward")
    looks_up_labels = True

    def __init__(
        self,
        activation: str | None = None,
        with_bias: bool = True,
        grad_filter: float | None = None,
        forward_weights_init: Any = "glorot_uniform",
        bias_init: Any = 0.0,
        use_transposed_weights: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param activation: such as "relu"; None for none
        :param with_bias: whether there is `b`
        :param grad_filter: sequences where the square of some entry of the gradient is not below this, before the
            activation, get the gradient 0
        :param forward_weights_init: initial value of `W`
        :param bias_init: initial value of `b`
        :param use_transposed_weights: `W` is [F_out, F_in]
        """
        super().__init__(**kwargs)
        self.activation = activation
        self.with_bias = with_bias
        self.grad_filter = grad_filter
        self.forward_weights_init = forward_weights_init
        self.bias_init = bias_init
        self.use_transposed_weights = use_transposed_weights

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., F_out]"""
        in_dim = self.feature_dim_of(source, or_sparse_dim=True)
        out_dim = self.output_feature_dim(self.feature_dim_from_target())
        output = self._transform(source, in_dim, out_dim)
        if self.with_bias:
            output = rf.combine_bc(output, "+", self.parameter("b", [out_dim], initial=self.bias_init))
        output = output.copy_with_roles(feature_dim=out_dim)
        if self.grad_filter:
            of_sequence = [dim for dim in output.dims if not (dim.is_batch_dim() or dim.is_beam_dim())]
            output = filter_grad(output, threshold=self.grad_filter, axis=of_sequence)
        if self.activation:
            self.output_before_activation = OutputWithActivation(output, self.activation)
            output = self.output_before_activation.after
            if self.activation == "softmax" and out_dim.dimension == 1:
                self.warning = (
                    f"{self.where()}: a softmax over a single entry is always 1. The activation 'sigmoid' makes a"
                    " probability of one number."
                )
        elif self.loss is not None and self.loss.takes_probabilities():
            self.warning = (
                f"{self.where()}: the loss takes probabilities, and 'activation' is None, so that there are negative"
                " numbers, too. The class 'softmax' makes probabilities."
            )
        return output

    def _transform(self, source: Tensor, in_dim: Dim, out_dim: Dim) -> Tensor:
        weights = self.parameter("W", self._dims_of_weights(in_dim, out_dim), initial=self.forward_weights_init)
        axis = weights.dims[1 if self.use_transposed_weights else 0]
        if source.sparse:
            # Expressions of users expect the feature dim at the end, also if that is the first axis of `W`.
            output = rf.gather(weights, indices=source, axis=axis).copy_transpose([*source.dims, out_dim])
            time = source.time_dim_axis_or_unspecified
            return output.copy_with_roles(time_dim=source.dims[time]) if isinstance(time, int) else output
        return rf.matmul(source, weights, reduce=axis, use_mask=False)

    def _dims_of_weights(self, in_dim: Dim, out_dim: Dim) -> list[Dim]:
        if not self.use_transposed_weights:
            return [in_dim, out_dim]
        # Of two equal dims, the first one would be summed over, if nothing says otherwise.
        return [out_dim, in_dim.copy(match_priority=2) if in_dim == out_dim else in_dim]


class SoftmaxLayer(LinearLayer):
    """`y = softmax(x W + b)`, a distribution over the feature dim."""

    layer_class = "softmax"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"activation": "softmax", **kwargs})
