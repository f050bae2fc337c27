"""CTC and edit distance on raw PyTorch tensors. Where there are native kernels, they do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from returnn.torch.frontend import native


class CtcTorchOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def scan_raw(
        step: Callable[[Any, Sequence[Any]], Any], initial: Any, frames: Sequence[Any], *, reverse: bool = False
    ) -> torch.Tensor:
        """:return: states"""
        state, states = initial, []
        order = range(len(frames[0]))
        for t in reversed(order) if reverse else order:
            state = step(state, [x[t] for x in frames])
            states.append(state)
        if not states:
            return initial[None][:0]
        return torch.stack(states[::-1] if reverse else states)

    @staticmethod
    def with_gradient_raw(
        x: torch.Tensor, compute: Callable[[Any], tuple[Any, Any]], gradient: Callable[[Any, Any], Any]
    ) -> torch.Tensor:
        """:return: value"""
        return _WithGradient.apply(x, compute, gradient)

    @staticmethod
    def ctc_loss_raw(
        logits: torch.Tensor,
        targets: torch.Tensor,
        num_frames: torch.Tensor,
        num_labels: torch.Tensor,
        *,
        blank_index: int,
    ) -> torch.Tensor | None:
        """:return: loss. Where there is no alignment, it is infinite, with gradient 0."""
        if not logits.numel() or not targets.numel():
            return None
        log_probs = torch.log_softmax(logits, dim=-1).transpose(0, 1)
        loss = torch.nn.functional.ctc_loss(
            log_probs,
            targets.long(),
            num_frames.cpu().long(),
            num_labels.cpu().long(),
            blank=blank_index,
            reduction="none",
            zero_infinity=True,
        )
        position = torch.arange(1, targets.shape[1], device=targets.device)
        is_repeated = (targets[:, 1:] == targets[:, :-1]) & (position < num_labels[:, None])
        has_alignment = num_labels + is_repeated.sum(1) <= num_frames
        return torch.where(has_alignment, loss, torch.inf)

    @staticmethod
    def ctc_loss_by_kernel_raw(
        logits: torch.Tensor,
        targets: torch.Tensor,
        num_frames: torch.Tensor,
        num_labels: torch.Tensor,
        *,
        blank: int,
        label_loop: bool,
        normalized: bool,
        time_major: bool,
        max_approx: bool,
    ) -> torch.Tensor | None:
        """:return: loss, or None on other devices and types"""
        if not native.has_operations(logits):
            return None
        options = (blank, label_loop, normalized, time_major, max_approx)
        return native.get_operations().ctc_loss(logits, targets, num_frames, num_labels, *options)[0]

    @staticmethod
    def ctc_best_path_by_kernel_raw(
        logits: torch.Tensor,
        targets: torch.Tensor,
        num_frames: torch.Tensor,
        num_labels: torch.Tensor,
        *,
        blank: int,
        label_loop: bool,
        normalized: bool,
        time_major: bool,
    ) -> torch.Tensor | None:
        """:return: classes, or None on other devices and types"""
        if not native.has_operations(logits):
            return None
        options = (blank, label_loop, normalized, time_major)
        return native.get_operations().ctc_best_path(logits.detach(), targets, num_frames, num_labels, *options)[0]

    @staticmethod
    def edit_distance_raw(
        a: torch.Tensor, b: torch.Tensor, a_lengths: torch.Tensor, b_lengths: torch.Tensor
    ) -> torch.Tensor:
        """:return: distances. A row of the table at once: insertions along it are a cumulative minimum."""
        if a.dtype == torch.int32 and native.has_operations(a):
            return native.get_operations().edit_distance(a, a_lengths, b, b_lengths, False)
        position = torch.arange(b.shape[1] + 1, device=b.device)
        row = position.expand(len(b), -1)
        for i in range(a.shape[1]):
            changed = (a[:, i, None] != b).to(row.dtype)
            best = torch.cat([row[:, :1] + 1, torch.minimum(row[:, 1:] + 1, row[:, :-1] + changed)], dim=1)
            new = torch.cummin(best - position, dim=1).values + position
            row = torch.where((i < a_lengths)[:, None], new, row)
        return row.gather(1, b_lengths.long()[:, None])[:, 0].to(torch.int32)


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, compute: Any, gradient: Any) -> torch.Tensor:
        value, ctx.saved = compute(x)
        ctx.gradient = gradient
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return ctx.gradient(gradients[0], ctx.saved), None, None
