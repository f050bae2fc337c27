"""Raw numeric operations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed.nn.functional

from returnn.tensor import Tensor


class NumericTorchOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def cumsum_raw(raw_tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """:return: sums"""
        return torch.cumsum(raw_tensor, dim=axis, dtype=raw_tensor.dtype)

    @staticmethod
    def test_raw(raw_tensor: torch.Tensor, kind: str) -> torch.Tensor:
        """:return: test"""
        test = {"finite": torch.isfinite, "infinite": torch.isinf, "neg_infinite": torch.isneginf}[kind]
        return test(raw_tensor)

    @staticmethod
    def make_complex_raw(real: torch.Tensor, imag: torch.Tensor) -> torch.Tensor:
        """:return: complex numbers"""
        return torch.complex(real, imag)

    @staticmethod
    def complex_as_real_raw(raw_tensor: torch.Tensor) -> torch.Tensor:
        """:return: both parts, as a view"""
        return torch.view_as_real(raw_tensor)

    @staticmethod
    def real_as_complex_raw(raw_tensor: torch.Tensor) -> torch.Tensor:
        """:return: complex numbers"""
        return torch.complex(raw_tensor[..., 0], raw_tensor[..., 1])

    @staticmethod
    def rfft_raw(raw_tensor: torch.Tensor, size: int) -> torch.Tensor:
        """:return: spectrum"""
        if not raw_tensor.numel():
            return torch.complex(*[raw_tensor.new_zeros(*raw_tensor.shape[:-1], size // 2 + 1)] * 2)
        return torch.fft.rfft(raw_tensor, n=size)

    @staticmethod
    def of_all_processes_raw(raw_tensor: torch.Tensor) -> torch.Tensor | None:
        """:return: what each process of the group has, with gradients, if there is a group"""
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return None
        return torch.stack(torch.distributed.nn.functional.all_gather(raw_tensor))

    @staticmethod
    def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
        """:return: nothing: eager tensors know the functions of their gradients, but not the values these came from"""
        return []

    @staticmethod
    def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
        """:return: nothing: eager tensors do not know where they go to"""
        return []
