"""Gradients of raw tensors, which change on their way back; `rf.scaled_gradient` is for tensors with dims."""

from __future__ import annotations

import torch

from returnn.torch.frontend.gradient import GradientTorchOps


def scaled_gradient(x: torch.Tensor, scale: float | torch.Tensor) -> torch.Tensor:
    """
    :param x: any tensor
    :param scale: number, or tensor that fits to x; -1 reverses the gradient
    :return: the same value; the gradient is multiplied by `scale`
    """
    return scaled_gradient_ext(x, scale=scale)


def scaled_gradient_ext(
    x: torch.Tensor,
    *,
    scale: float | torch.Tensor = 1.0,
    shift: float | torch.Tensor | None = None,
    scale_shift_by_sum_over_axis: int | None = None,
) -> torch.Tensor:
    """
    :param x: any tensor
    :param scale: the gradient is multiplied by this ...
    :param shift: ... and then this is added
    :param scale_shift_by_sum_over_axis: what is added is multiplied with the sum of the absolute gradient over this
        axis
    :return: the same value
    """

    def change(grad: torch.Tensor) -> torch.Tensor:
        if shift is None:
            return grad * scale
        if scale_shift_by_sum_over_axis is None:
            return grad * scale + shift
        return grad * scale + shift * grad.abs().sum(scale_shift_by_sum_over_axis, keepdim=True)

    return GradientTorchOps.map_gradient_raw(x, change)


__all__ = ["scaled_gradient", "scaled_gradient_ext"]
