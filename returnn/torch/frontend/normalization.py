"""Normalization by PyTorch's own operations, which compute all of it at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from returnn.frontend._ops.layout import raw_in_order
from returnn.frontend._ops.nn.normalization import NormalizationOps, last_dims
from returnn.tensor import Dim, Tensor
from returnn.tensor.tensor_base import tensor_like


class NormalizationTorchOps(NormalizationOps):
    """For the meaning of the operations see `returnn.frontend._ops.nn.normalization`."""

    @classmethod
    def layer_norm(
        cls,
        source: Tensor,
        *,
        in_dims: Sequence[Dim],
        scale: Tensor,
        bias: Tensor | None,
        epsilon: float,
    ) -> Tensor:
        """:return: by one operation where the features are the last axes, by single ones otherwise"""
        dims = last_dims(source, in_dims)
        if dims is None or source.dtype != scale.dtype:
            return super().layer_norm(source, in_dims=in_dims, scale=scale, bias=bias, epsilon=epsilon)
        raw = torch.nn.functional.layer_norm(
            source.raw_tensor,
            [dim.size for dim in dims if dim.size is not None],
            raw_in_order(cls.as_tensor(scale), dims),
            None if bias is None else raw_in_order(cls.as_tensor(bias), dims),
            epsilon,
        )
        return tensor_like(cls.as_tensor(source), {"name": "layer_norm"}, raw)
