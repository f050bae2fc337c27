"""0, 1, 2, ... along a dim."""

from __future__ import annotations

from returnn.frontend._backend import get_backend_of, get_global_backend
from returnn.frontend._ops.operands import require_is_dim
from returnn.tensor import Dim, Tensor


def range_over_dim(dim: Dim, *, dtype: str | None = None, device: str | None = None) -> Tensor:
    """
    :param dim: the dim
    :param dtype: default: that of its lengths, int32
    :param device: such as "cpu"
    :return: [dim]: 0, 1, 2, ...; if integers, they are indices into the dim
    """
    require_is_dim("range_over_dim", dim)
    backend = get_global_backend()
    if backend.name != "template":
        backend = get_backend_of(dim.dyn_size_ext)
    return backend.range_over_dim(dim, dtype=dtype, device=device)


def positions(dim: Dim) -> Tensor:
    """:return: [dim]: 0, 1, 2, ..., as numbers to compute with, not as indices into the dim"""
    return range_over_dim(dim).copy_with_roles(sparse_dim=None)
