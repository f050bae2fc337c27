"""Gradients: numpy has none, so what changes them only passes the value on."""

from __future__ import annotations

import contextlib
from typing import Any

from returnn.frontend._backends.template import TemplateBackend
from returnn.frontend._ops.operands import fail
from returnn.tensor import Tensor


class GradientNumpyOps:
    """For their meaning see `returnn.frontend._ops`."""

    @staticmethod
    def set_requires_gradient(tensor: Tensor) -> None:
        """:raises DimError: always"""
        raise fail("set_requires_gradient: numpy has no gradients.", "Select the backend 'torch' or 'tf'.")

    @staticmethod
    def gradient(y: Tensor, x: Tensor) -> Tensor:
        """:raises DimError: always"""
        raise fail("gradient: numpy has no gradients.", "Select the backend 'torch' or 'tf'.")

    @staticmethod
    def stop_gradient(tensor: Tensor) -> Tensor:
        """:return: the same value"""
        return tensor.copy()

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context without effect"""
        return contextlib.nullcontext()

    @staticmethod
    def scaled_gradient(tensor: Tensor, scale: Any) -> Tensor:
        """:return: the same value"""
        return tensor.copy()

    @staticmethod
    def scaled_gradient_ext(x: Tensor, **options: Any) -> Tensor:
        """:return: the same value"""
        TemplateBackend.scaled_gradient_ext(x, **options)
        return x.copy()
