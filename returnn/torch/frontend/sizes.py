"""
Sizes of axes: numbers, except while a graph is made of an example, as for an export to ONNX.

Then, a size is a tensor, and the graph has what it was computed from. What is decided by it would be decided for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def as_size(value: Any) -> Any:
    """:return: a number; a tensor while a graph is made"""
    if not torch.jit.is_tracing():
        return int(value)
    return value.to(torch.int64) if isinstance(value, torch.Tensor) else value


def as_shape(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """:return: sizes of all axes, as PyTorch takes them"""
    return tuple(map(as_size, sizes)) if torch.jit.is_tracing() else tuple(sizes)


def has_entries(x: torch.Tensor, axes: Sequence[int] | None = None) -> bool:
    """
    :param x: tensor
    :param axes: only these; default: all
    :return: whether no axis is of size 0. A graph is for tensors that have some
    """
    return torch.jit.is_tracing() or all(x.shape[axis] for axis in (range(x.ndim) if axes is None else axes))
