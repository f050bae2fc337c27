"""Rules of gradients."""

from __future__ import annotations

import contextlib
from typing import Any

from returnn.frontend._ops.operands import fail, require_dims
from returnn.tensor import Dim, Tensor


class GradientRules:
    """Rules of gradients. For their meaning see `returnn.frontend._interface.gradient`."""

    @staticmethod
    def set_requires_gradient(tensor: Tensor) -> None:
        """Nothing to do."""

    @staticmethod
    def gradient(y: Tensor, x: Tensor) -> Tensor:
        """:return: template"""
        if y.dims:
            raise fail(f"gradient: {y} is not a scalar.", "Sum it up first (rf.reduce_sum).")
        return x.copy_template()

    @staticmethod
    def stop_gradient(tensor: Tensor) -> Tensor:
        """:return: template"""
        return tensor.copy_template()

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context without effect"""
        return contextlib.nullcontext()

    @staticmethod
    def scaled_gradient(tensor: Tensor, scale: Any) -> Tensor:
        """:return: template"""
        return tensor.copy_template()

    @staticmethod
    def scaled_gradient_ext(
        x: Tensor, *, scale: Any = 1.0, shift: Any = None, scale_shift_by_sum_over_axis: Dim | None = None
    ) -> Tensor:
        """:return: template"""
        if scale_shift_by_sum_over_axis is not None:
            require_dims("scaled_gradient_ext", x, [scale_shift_by_sum_over_axis])
        return x.copy_template()
