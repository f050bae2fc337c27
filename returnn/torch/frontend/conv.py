"""Convolution and pooling on raw PyTorch tensors, with the features before the spatial axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from returnn.frontend._ops.nn.conv_windows import TransposedWindow, Window
from returnn.torch.frontend.sizes import as_size, has_entries

_CONV: tuple[Callable[..., Any], ...] = (functional.conv1d, functional.conv2d, functional.conv3d)
_TRANSPOSED: tuple[Callable[..., Any], ...] = (
    functional.conv_transpose1d,
    functional.conv_transpose2d,
    functional.conv_transpose3d,
)
_MAX_POOL: tuple[Callable[..., Any], ...] = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
_AVG_POOL: tuple[Callable[..., Any], ...] = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)


class ConvTorchOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    channels_last = False

    @staticmethod
    def conv_raw(raw_tensor: torch.Tensor, filter: torch.Tensor, moved: Sequence[Window], groups: int) -> torch.Tensor:
        """:return: convolution"""
        pads = _paddings(raw_tensor, moved)
        if _is_shorter_than_window(raw_tensor, pads, moved):
            empty = _empty(_padded(raw_tensor, pads, 0.0), moved)
            return empty.new_zeros(len(empty), len(filter), *empty.shape[2:])
        # PyTorch's own padding wants something to pad.
        is_symmetric = all(left == right for left, right in pads) and has_entries(raw_tensor)
        if not is_symmetric:
            raw_tensor = _padded(raw_tensor, pads, 0.0)
        return _CONV[len(moved) - 1](
            raw_tensor,
            filter.contiguous(),  # for some sizes, PyTorch has no gradient otherwise
            stride=[w.stride for w in moved],
            dilation=[w.dilation for w in moved],
            padding=[left for left, _ in pads] if is_symmetric else 0,
            groups=groups,
        )

    @staticmethod
    def transposed_conv_raw(
        raw_tensor: torch.Tensor, filter: torch.Tensor, laid: Sequence[TransposedWindow], sizes: Sequence[Any]
    ) -> torch.Tensor:
        """:return: transposed convolution"""
        if not has_entries(raw_tensor, range(2, raw_tensor.ndim)):
            return raw_tensor.new_zeros(len(raw_tensor), filter.shape[1], *map(int, sizes))
        full = _TRANSPOSED[len(laid) - 1](raw_tensor, filter, stride=[w.stride for w in laid])
        missing = [
            max(w.cut_left + as_size(size) - n, 0) for w, size, n in zip(laid, sizes, full.shape[2:], strict=True)
        ]
        full = _padded(full, [(0, number) for number in missing], 0.0)
        for axis, (window, size) in enumerate(zip(laid, sizes, strict=True), start=2):
            full = full.narrow(axis, window.cut_left, as_size(size))
        return full

    @staticmethod
    def pool_raw(raw_tensor: torch.Tensor, mode: str, moved: Sequence[Window]) -> torch.Tensor:
        """:return: maximum or average"""
        pads = _paddings(raw_tensor, moved)
        if _is_shorter_than_window(raw_tensor, pads, moved):
            return _empty(_padded(raw_tensor, pads, 0.0), moved)
        options = {"kernel_size": [w.size for w in moved], "stride": [w.stride for w in moved]}
        if mode == "max":
            padded = _padded(raw_tensor, pads, -torch.inf)
            return _MAX_POOL[len(moved) - 1](padded, **options, dilation=[w.dilation for w in moved])
        average = _average(_padded(raw_tensor, pads, 0.0), moved, options)
        if not any(left or right for left, right in pads):
            return average
        inside = _padded(raw_tensor.new_ones(1, 1, *raw_tensor.shape[2:]), pads, 0.0)
        return average / _average(inside, moved, options)


def _is_shorter_than_window(x: torch.Tensor, pads: Sequence[tuple[int, int]], moved: Sequence[Window]) -> bool:
    """:return: whether nothing comes out, as the window does not fit into some padded axis"""
    if torch.jit.is_tracing():
        return False  # a graph is for sequences that are long enough
    return any(left + size + right == w.extent for w, size, (left, right) in zip(moved, x.shape[2:], pads, strict=True))


def _empty(padded: torch.Tensor, moved: Sequence[Window]) -> torch.Tensor:
    """:return: what comes out then. PyTorch itself makes an error of it."""
    for axis, window in enumerate(moved, start=2):
        number = (padded.shape[axis] - window.extent - 1) // window.stride + 1
        padded = padded.narrow(axis, 0, number)
    return padded


def _average(x: torch.Tensor, moved: Sequence[Window], options: dict[str, Any]) -> torch.Tensor:
    if all(w.dilation == 1 for w in moved):
        return _AVG_POOL[len(moved) - 1](x, **options)
    for axis, window in enumerate(moved, start=2):
        x = x.unfold(axis, window.extent + 1, window.stride)[..., :: window.dilation].mean(-1)
    return x


def _paddings(x: torch.Tensor, moved: Sequence[Window]) -> list[tuple[int, int]]:
    """:return: for each spatial axis; one that is shorter than the window becomes so long that nothing comes out"""
    pads = []
    for window, size in zip(moved, x.shape[2:], strict=True):
        left, right = window.padding_for(size)
        is_long_enough = torch.jit.is_tracing() and window.static_padding() is not None
        pads.append((left, right if is_long_enough else max(right, window.extent - size - left)))
    return pads


def _padded(x: torch.Tensor, pads: Sequence[tuple[int, int]], value: float) -> torch.Tensor:
    flat = [number for sides in reversed(pads) for number in sides]
    return functional.pad(x, flat, value=value) if any(flat) else x
