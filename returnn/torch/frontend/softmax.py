"""Softmax on raw PyTorch tensors."""

from __future__ import annotations

import torch


class SoftmaxTorchOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def softmax_raw(raw_tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """:return: softmax"""
        return torch.softmax(raw_tensor, dim=axis)

    @staticmethod
    def log_softmax_raw(raw_tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """:return: logarithm of the softmax"""
        return torch.log_softmax(raw_tensor, dim=axis)

    @staticmethod
    def sparse_cross_entropy_raw(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """:return: cross entropy"""
        flat_logits = logits.reshape(-1, logits.shape[-1])
        flat = torch.nn.functional.cross_entropy(flat_logits, targets.reshape(-1).long(), reduction="none")
        return flat.reshape(targets.shape)
