"""Raw operations which change axes and keep values."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from returnn.torch.frontend.sizes import as_size


class ShapeTorchOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def concat_raw(raw_tensors: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
        """:return: concatenation"""
        return torch.cat(list(raw_tensors), dim=axis)

    @staticmethod
    def stack_raw(raw_tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """:return: stacked"""
        return torch.stack(list(raw_tensors))

    @staticmethod
    def unstack_raw(raw_tensor: torch.Tensor, axis: int, number: int) -> Sequence[torch.Tensor]:
        """:return: entries"""
        return torch.unbind(raw_tensor, dim=axis)

    @staticmethod
    def split_raw(raw_tensor: torch.Tensor, sizes: Sequence[int], axis: int) -> Sequence[torch.Tensor]:
        """:return: pieces"""
        return torch.split(raw_tensor, [as_size(size) for size in sizes], dim=axis)

    @staticmethod
    def pad_raw(
        raw_tensor: torch.Tensor, amounts: Sequence[tuple[int, int]], value: torch.Tensor | float
    ) -> torch.Tensor:
        """:return: padded"""
        flat = [as_size(amount) for sides in reversed(amounts) for amount in sides]
        return torch.nn.functional.pad(raw_tensor, flat, value=value)

    @staticmethod
    def flip_raw(raw_tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """:return: flipped"""
        return torch.flip(raw_tensor, dims=[axis])
