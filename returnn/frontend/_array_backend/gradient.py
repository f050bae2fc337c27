"""Gradients of TensorFlow and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.frontend._array_backend.core import CoreArrayOps
from returnn.frontend._ops.layout import raw_for_broadcast
from returnn.frontend._template_backend import TemplateBackend
from returnn.tensor import Dim, Tensor


class GradientArrayOps(CoreArrayOps):
    """Gradients, on the raw operations below."""

    @staticmethod
    def gradient_raw(y: Any, x: Any) -> Any:
        """:return: gradient of the scalar y with respect to x"""
        raise NotImplementedError

    @staticmethod
    def stop_gradient_raw(x: Any) -> Any:
        """:return: the same value"""
        raise NotImplementedError

    @staticmethod
    def map_gradient_raw(x: Any, function: Callable[[Any], Any]) -> Any:
        """:return: the same value; the gradient g that comes back becomes function(g)"""
        raise NotImplementedError

    @classmethod
    def gradient(cls, y: Tensor, x: Tensor) -> Tensor:
        """:return: gradient"""
        out = TemplateBackend.gradient(y, x)
        out._raw_tensor = cls.gradient_raw(y._raw_tensor, x._raw_tensor)
        return out

    @classmethod
    def stop_gradient(cls, tensor: Tensor) -> Tensor:
        """:return: the same value"""
        out = TemplateBackend.stop_gradient(tensor)
        out._raw_tensor = cls.stop_gradient_raw(tensor._raw_tensor)
        return out

    @classmethod
    def scaled_gradient(cls, tensor: Tensor, scale: float | Tensor) -> Tensor:
        """:return: the same value"""
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
        """:return: the same value"""
        axis = scale_shift_by_sum_over_axis
        out = TemplateBackend.scaled_gradient_ext(x, scale=scale, shift=shift, scale_shift_by_sum_over_axis=axis)
        template = x.copy_template()

        def function(grad: Any) -> Any:
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

        out._raw_tensor = cls.map_gradient_raw(x._raw_tensor, function)
        return out
