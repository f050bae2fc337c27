"""The source as it is, or after dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer


class CopyLayer(_ConcatInputLayer):
    """The source as it is; several sources are joined in their feature dim."""

    layer_class = "copy"
    keeps_zeros = True
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


class DropoutLayer(CopyLayer):
    """The source, after dropout: see the options `dropout`, `dropout_axis` and so on, which all such layers have."""

    layer_class = "dropout"


def with_extra_deps(source: Tensor, layers: Sequence[LayerBase]) -> Tensor:
    """:return: the source, which is computed after the outputs of the layers"""
    deps = [layer.output.raw_tensor for layer in layers if layer.output.raw_tensor is not None]
    if not deps or source.raw_tensor is None:
        return source
    out = source.copy()
    out.raw_tensor = rf.get_backend_by_tensor(source).identity_with_control_dependencies_raw(source.raw_tensor, deps)
    return out
