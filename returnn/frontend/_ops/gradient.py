"""Gradients, and operations which change them on their way back."""

from __future__ import annotations

from typing import Any

from returnn.frontend._ops.layout import raw_for_broadcast
from returnn.frontend._ops.operands import fail, require_dims
from returnn.frontend._ops.reduce import ReduceOps
from returnn.tensor import Dim, Tensor


class GradientOps(ReduceOps):
    """Gradients, and operations which change them on their way back."""

    @classmethod
    def gradient(cls, y: Tensor, x: Tensor) -> Tensor:
        """:return: gradient of the scalar y with respect to x"""
        if y.dims:
            raise fail(f"gradient: {y} is not a scalar.", "Sum it up first (rf.reduce_sum).")
        out = x.copy_template()
        if cls.computes:
            out._raw_tensor = cls.gradient_raw(y._raw_tensor, x._raw_tensor)
        return out

    @classmethod
    def stop_gradient(cls, tensor: Tensor) -> Tensor:
        """:return: the same value; no gradient goes back"""
        out = tensor.copy_template()
        if cls.computes:
            out._raw_tensor = cls.stop_gradient_raw(tensor._raw_tensor)
        return out

    @classmethod
    def scaled_gradient(cls, tensor: Tensor, scale: float | Tensor) -> Tensor:
        """:return: the same value; the gradient is multiplied by `scale`"""
        return cls.scaled_gradient_ext(tensor, scale=scale)

    @classmethod
    def scaled_gradient_ext(
        cls,
        x: Tensor,
        *,
        scale: float | Tensor = 1.0,
        shift: float | Tensor | None = None,
        scale_shift_by_sum_over_axis: Dim | None = None,
    ) -> Tensor:
        """See `returnn.frontend.scaled_gradient_ext`."""
        axis = scale_shift_by_sum_over_axis
        if axis is not None:
            require_dims("scaled_gradient_ext", x, [axis])
        out, template = x.copy_template(), x.copy_template()
        if not cls.computes:
            return out

        def change(grad: Any) -> Any:
            total = None
            if axis is not None:
                as_tensor = template.copy_template()
                as_tensor._raw_tensor = grad
                summed = cls.reduce(cls.activation(as_tensor, "abs"), mode="sum", axis=axis)
                total = raw_for_broadcast(summed, template.dims)
            for kind, value in (("mul", scale), ("add", shift)):
                if value is None or (kind == "mul" and isinstance(value, (int, float)) and value == 1):
                    continue
                raw = raw_for_broadcast(cls.as_tensor(value, like=template), template.dims)
                if total is not None and kind == "add":
                    raw = cls.combine_raw(raw, "mul", total)
                grad = cls.combine_raw(grad, kind, raw)
            return grad

        out._raw_tensor = cls.map_gradient_raw(x._raw_tensor, change)
        return out
