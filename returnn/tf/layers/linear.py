"""Linear transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.layer_base import LayerBase
from returnn.tf.layers.sources import _ConcatInputLayer
from returnn.tf.util.activations import OutputWithActivation
from returnn.tf.util.grad import filter_grad
from returnn.util.errors import ConfigError


class LinearLayer(_ConcatInputLayer):
    """
    `y = activation(x W + b)`.

    Source [..., F_in], output [..., F_out]. Parameters `W`: [F_in, F_out] and `b`: [F_out]. For sparse data it is an
    embedding: the row of `W` for each label.
    """

    layer_class = ("linear", "hidden", "forward")

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
        in_dim = source.feature_dim_or_sparse_dim
        if in_dim is None:
            raise ConfigError(f"{self.where()}: the source {source} has no feature dim.")
        out_dim = self.output_feature_dim(self.feature_dim_from_target())
        output = self._transform(source, in_dim, out_dim)
        if self.with_bias:
            output = rf.combine_bc(output, "+", self.parameter("b", [out_dim], initial=self.bias_init))
        output.feature_dim = out_dim
        if self.grad_filter:
            of_sequence = [dim for dim in output.dims if not (dim.is_batch_dim() or dim.is_beam_dim())]
            output = filter_grad(output, threshold=self.grad_filter, axis=of_sequence)
        if self.activation:
            self.output_before_activation = OutputWithActivation(output, self.activation)
            output = self.output_before_activation.after
        return output

    def _transform(self, source: Tensor, in_dim: Dim, out_dim: Dim) -> Tensor:
        dims = [out_dim, in_dim] if self.use_transposed_weights else [in_dim, out_dim]
        weights = self.parameter("W", dims, initial=self.forward_weights_init)
        axis = weights.dims[1 if self.use_transposed_weights else 0]
        if source.sparse:
            return rf.gather(weights, indices=source, axis=axis)
        return rf.matmul(source, weights, reduce=axis, use_mask=False)


class SoftmaxLayer(LinearLayer):
    """`y = softmax(x W + b)`, a distribution over the feature dim."""

    layer_class = "softmax"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"activation": "softmax", **kwargs})


class CopyLayer(_ConcatInputLayer):
    """The source as it is; several sources are joined in their feature dim."""

    layer_class = "copy"
    keeps_feature_dim = True

    def __init__(
        self,
        in_dim: Dim | None = None,
        out_dim: Dim | None = None,
        extra_deps: list[LayerBase] | tuple[LayerBase, ...] = (),
        **kwargs: Any,
    ) -> None:
        """
        :param in_dim: which dim of the source is the feature dim
        :param out_dim: feature dim of the output
        :param extra_deps: other layers which are computed before
        """
        super().__init__(in_dim=in_dim, out_dim=out_dim, **kwargs)
        self.extra_deps = extra_deps

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source"""
        if len(self.sources) == 1 and not self.dropout and self.mask is None:
            self.output_before_activation = self.sources[0].output_before_activation
            self.output_loss = self.sources[0].output_loss
        return with_extra_deps(source, self.extra_deps)


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


def with_extra_deps(source: Tensor, layers: Sequence[LayerBase]) -> Tensor:
    """:return: the source, which is computed after the outputs of the layers"""
    deps = [layer.output.raw_tensor for layer in layers if layer.output.raw_tensor is not None]
    if not deps or source.raw_tensor is None:
        return source
    out = source.copy()
    out.raw_tensor = rf.get_backend_by_tensor(source).identity_with_control_dependencies_raw(source.raw_tensor, deps)
    return out
