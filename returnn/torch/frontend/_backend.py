"""The PyTorch backend, put together from its themes."""

from __future__ import annotations

from typing import Any

import torch

from returnn.frontend._backend import Backend, register_backend, register_backend_by_tensor_type
from returnn.tensor import Dim, Tensor
from returnn.torch.frontend.attention import AttentionTorchOps
from returnn.torch.frontend.conv import ConvTorchOps
from returnn.torch.frontend.ctc import CtcTorchOps
from returnn.torch.frontend.gradient import GradientTorchOps
from returnn.torch.frontend.normalization import NormalizationTorchOps
from returnn.torch.frontend.numeric import NumericTorchOps
from returnn.torch.frontend.parameter import ParameterTorchOps
from returnn.torch.frontend.planned import PlannedTorchOps
from returnn.torch.frontend.plans import use_compiled_table
from returnn.torch.frontend.random import RandomTorchOps
from returnn.torch.frontend.raw import RawTorchOps
from returnn.torch.frontend.rec import RecTorchOps
from returnn.torch.frontend.select import SelectTorchOps
from returnn.torch.frontend.shape import ShapeTorchOps
from returnn.torch.frontend.sizes import as_size
from returnn.torch.frontend.softmax import SoftmaxTorchOps


class TorchBackend(
    ParameterTorchOps,
    RawTorchOps,
    SoftmaxTorchOps,
    RecTorchOps,
    CtcTorchOps,
    ConvTorchOps,
    AttentionTorchOps,
    NormalizationTorchOps,
    ShapeTorchOps,
    SelectTorchOps,
    NumericTorchOps,
    RandomTorchOps,
    GradientTorchOps,
    PlannedTorchOps,
    Backend[torch.Tensor],
):
    """Operations are computed at once."""

    name = "torch"
    RawTensorType = torch.Tensor
    dispatch_priority = 1

    @classmethod
    def slice(cls, source: Tensor, *, axis: Dim, start: Any = None, end: Any = None, **options: Any) -> Tensor:
        """See the base. A graph of ONNX takes positions of one type alone."""
        start, end = (
            as_size(x.get_dim_value() if isinstance(x, Dim) else x) if isinstance(x, (Dim, torch.Tensor)) else x
            for x in (start, end)
        )
        return super().slice(source, axis=axis, start=start, end=end, **options)


register_backend(TorchBackend)
use_compiled_table()
register_backend_by_tensor_type(torch.Tensor, TorchBackend)
register_backend_by_tensor_type(torch.nn.Parameter, TorchBackend)
