"""The tensor classes under the names by which configs and layers know them. The code is in `returnn.tensor`."""

from __future__ import annotations

from typing import Any

from returnn.tensor import ControlFlowContext, Dim, Tensor, VerifyOutShapeException, batch_dim, single_step_dim
from returnn.tensor.batch_info import BatchInfo, SearchBeam
from returnn.tensor.marked_dim import ImplicitDynSizeDim, ImplicitSparseDim, MarkedDim, OptionalDim
from returnn.util.not_specified import NotSpecified

Data = Tensor


class _MakesDim(type(Dim)):
    """For `DimensionTag`, whose objects are of the class `Dim`."""

    def __call__(
        cls, kind: Any = None, description: str | None = None, dimension: int | None = None, **kwargs: Any
    ) -> Dim:
        return Dim(dimension, kind=kind, description=description, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Dim)


class DimensionTag(Dim, metaclass=_MakesDim):
    """
    `Dim` under its old name, with its old arguments: kind, description, dimension. They are all optional; without a
    dimension, sequences have different lengths.
    """


def FeatureDim(description: str, dimension: int | None, **kwargs: Any) -> Dim:
    """
    :param description: name of the dim
    :param dimension: its size
    :param kwargs: for `Dim`
    :return: a dim of kind feature
    """
    return Dim(dimension, description=description, kind=Dim.Types.Feature, **kwargs)


def SpatialDim(description: str, dimension: int | None = None, **kwargs: Any) -> Dim:
    """
    :param description: name of the dim
    :param dimension: its size; None: sequences have different lengths
    :param kwargs: for `Dim`
    :return: a dim of kind spatial
    """
    return Dim(dimension, description=description, kind=Dim.Types.Spatial, **kwargs)


__all__ = [
    "BatchInfo",
    "ControlFlowContext",
    "Data",
    "Dim",
    "DimensionTag",
    "FeatureDim",
    "ImplicitDynSizeDim",
    "ImplicitSparseDim",
    "MarkedDim",
    "NotSpecified",
    "OptionalDim",
    "SearchBeam",
    "SpatialDim",
    "Tensor",
    "VerifyOutShapeException",
    "batch_dim",
    "single_step_dim",
]
