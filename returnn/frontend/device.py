"""Where values live."""

from __future__ import annotations

from returnn.frontend._backend import get_backend_of
from returnn.tensor import Tensor


def copy_to_device(x: Tensor, device: str | None = None) -> Tensor:
    """
    :param device: such as "cpu" or "cuda"; None: the default device
    :return: the tensor with its value there
    """
    return get_backend_of(x).copy_to_device(x, device)
