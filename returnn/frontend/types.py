"""Types that annotations name."""

from __future__ import annotations

from typing import Any, Protocol

import numpy

from returnn.frontend._backend import get_global_backend
from returnn.tensor import Dim, Tensor, TensorDict

RawTensorTypes = int | float | complex | numpy.number | numpy.ndarray | bool | str
ItemKeyType = RawTensorTypes | Tensor | slice


class GetModelFunc(Protocol):
    """The function `get_model` of a config."""

    def __call__(self, *, epoch: int, step: int) -> Any:
        """:return: the model, a module"""


class StepFunc(Protocol):
    """The functions `train_step` and `forward_step` of a config."""

    def __call__(self, *, model: Any, extern_data: TensorDict) -> None:
        """
        Computes one step, and marks losses and outputs (`rf.get_run_ctx().mark_as_loss`).

        :param model: what `get_model` returned
        :param extern_data: the batch
        """


def get_raw_tensor_type() -> type:
    """:return: type of the raw tensors of the selected backend"""
    return get_global_backend().RawTensorType


__all__ = ["Dim", "GetModelFunc", "ItemKeyType", "RawTensorTypes", "StepFunc", "Tensor", "get_raw_tensor_type"]
