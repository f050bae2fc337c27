"""What happens to the gradients between the backward pass and the update, for all parameters at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from returnn.config import Config


@dataclass(frozen=True)
class GradientOptions:
    """The options of the config; see `returnn.config.options.training`."""

    noise: float
    clip: float
    clip_norm: float
    clip_avg_norm: float
    clip_global_norm: float
    zero_above_norm: float
    filters_non_finite: bool

    @classmethod
    def from_config(cls, config: Config) -> GradientOptions:
        """:return: those of the config"""
        options = config.options
        return cls(
            noise=options.gradient_noise,
            clip=options.gradient_clip,
            clip_norm=options.gradient_clip_norm,
            clip_avg_norm=options.gradient_clip_avg_norm,
            clip_global_norm=options.gradient_clip_global_norm,
            zero_above_norm=options.grad_norm_to_clip_to_zero,
            filters_non_finite=options.gradient_nan_inf_filter,
        )


def gradients_of(parameters: Mapping[str, torch.nn.Parameter]) -> dict[str, torch.Tensor]:
    """:return: by name, for those parameters that have one"""
    return {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}


def norm_of(gradients: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """:return: L2 norm of all gradients together, a scalar"""
    return torch.nn.utils.get_total_norm(list(gradients.values()))


def filter_non_finite_(gradients: Mapping[str, torch.Tensor]) -> None:
    """Sets entries to 0 that are not finite, in place."""
    for gradient in gradients.values():
        gradient.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


def process_gradients_(gradients: Mapping[str, torch.Tensor], options: GradientOptions) -> None:
    """Adds noise, clips, and sets to 0 where the norm is too large: in this order, in place."""
    for gradient in gradients.values():
        if options.noise:
            gradient.add_(options.noise * torch.nn.init.trunc_normal_(torch.empty_like(gradient)))
        if options.clip:
            gradient.clamp_(-options.clip, options.clip)
        if options.clip_norm:
            gradient.mul_(_factor(gradient.norm(), options.clip_norm))
        if options.clip_avg_norm:
            gradient.mul_(_factor(gradient.norm() / gradient.numel(), options.clip_avg_norm))
    if options.clip_global_norm:
        _scale_(gradients, _factor(norm_of(gradients), options.clip_global_norm))
    if options.zero_above_norm:
        is_small = norm_of(gradients) <= options.zero_above_norm  # False if the norm is NaN
        for gradient in gradients.values():
            gradient.copy_(torch.where(is_small, gradient, torch.zeros_like(gradient)))


def _factor(norm: torch.Tensor, limit: float) -> torch.Tensor:
    return limit / norm.clamp_min(limit)


def _scale_(gradients: Mapping[str, torch.Tensor], factor: torch.Tensor) -> None:
    torch._foreach_mul_(list(gradients.values()), factor)
