"""Gradients."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class GradientOps:
    """Gradients, and operations which change them on their way back."""

    @staticmethod
    def set_requires_gradient(tensor: Tensor) -> None:
        """Prepares a tensor for `gradient` with respect to it."""
        raise NotImplementedError

    @staticmethod
    def gradient(y: Tensor, x: Tensor) -> Tensor:
        """:return: gradient of the scalar y with respect to x"""
        raise NotImplementedError

    @staticmethod
    def stop_gradient(tensor: Tensor) -> Tensor:
        """:return: the same value; no gradient goes back"""
        raise NotImplementedError

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context manager; no gradient goes back through what is computed inside"""
        raise NotImplementedError

    @staticmethod
    def gradient_checkpoint_scope() -> Any:
        """:return: context manager; what is computed inside is computed again for the gradient, if supported"""
        return contextlib.nullcontext()

    @staticmethod
    def scaled_gradient(tensor: Tensor, scale: float | Tensor) -> Tensor:
        """:return: the same value; the gradient is multiplied by `scale`"""
        raise NotImplementedError

    @staticmethod
    def scaled_gradient_ext(
        x: Tensor,
        *,
        scale: float | Tensor = 1.0,
        shift: float | Tensor | None = None,
        scale_shift_by_sum_over_axis: Dim | None = None,
    ) -> Tensor:
        """See `returnn.frontend.scaled_gradient_ext`."""
        raise NotImplementedError
