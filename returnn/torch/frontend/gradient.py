"""Gradients of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from returnn.tensor import Tensor
from returnn.torch.frontend.gradient_checkpoint import gradient_checkpoint_scope


class _MapGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, function: Callable[[Any], Any]) -> torch.Tensor:
        """:return: x"""
        ctx.function = function
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        """:return: the gradient, changed"""
        return ctx.function(grads[0]), None


class GradientTorchOps:
    """The raw operations of `returnn.frontend._backends.required`."""

    @staticmethod
    def set_requires_gradient(tensor: Tensor) -> None:
        """Makes PyTorch keep what it needs for the gradient with respect to the tensor."""
        tensor.raw_tensor.requires_grad_(True)

    @staticmethod
    def gradient_raw(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """:return: gradient; zeros if y does not depend on x"""
        (grad,) = torch.autograd.grad(y, x, create_graph=True, allow_unused=True)
        return torch.zeros_like(x) if grad is None else grad

    @staticmethod
    def stop_gradient_raw(x: torch.Tensor) -> torch.Tensor:
        """:return: the same value"""
        return x.detach()

    @staticmethod
    def map_gradient_raw(x: torch.Tensor, function: Callable[[Any], Any]) -> torch.Tensor:
        """:return: the same value"""
        result = _MapGradient.apply(x, function)
        assert isinstance(result, torch.Tensor)
        return result

    @staticmethod
    def gradient_checkpoint_scope() -> Any:
        """:return: context in which results are not kept, but computed again for the gradient"""
        return gradient_checkpoint_scope()

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context in which no gradient is kept"""
        return torch.no_grad()
