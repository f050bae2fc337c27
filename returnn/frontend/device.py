"""Where values live."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from returnn.frontend._backend import get_backend_of
from returnn.tensor import Tensor

_default_device: list[str | None] = [None]


def get_default_device() -> str | None:
    """:return: where new values go, such as "cpu" or "cuda"; None: where the backend puts them"""
    return _default_device[-1]


def set_default_device(device: str | None) -> None:
    """
    Sets where new values go.

    :param device: such as "cpu" or "cuda"; None: where the backend puts them
    """
    _default_device[-1] = device


@contextlib.contextmanager
def set_default_device_ctx(device: str | None) -> Iterator[None]:
    """Sets where new values go, inside of the `with` block. See `set_default_device`."""
    _default_device.append(device)
    try:
        yield
    finally:
        _default_device.pop()


def get_default_dim_size_device() -> str | None:
    """:return: where lengths of dims go: on the CPU, as sizes in memory follow from them"""
    return "cpu"


def copy_to_device(x: Tensor, device: str | None = None) -> Tensor:
    """
    :param device: such as "cpu" or "cuda"; None: the default device
    :return: the tensor with its value there
    """
    return get_backend_of(x).copy_to_device(x, device or get_default_device())


__all__ = [
    "copy_to_device",
    "get_default_device",
    "get_default_dim_size_device",
    "set_default_device",
    "set_default_device_ctx",
]
