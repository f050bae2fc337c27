"""Which layers the lengths of a dim come from."""

from __future__ import annotations

from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.scopes import dims_without_lengths, lengths_of


def get_dim_deps(dim: Dim | list[Dim] | tuple[Dim, ...]) -> list[Tensor[Any]]:
    """
    :param dim: one or several
    :return: tensors that are computed when the lengths of these dims are; nothing for dims of a fixed size
    """
    found = (lengths_of(atom) for atom in dims_without_lengths([dim] if isinstance(dim, Dim) else dim, []))
    return [lengths for lengths in found if lengths is not None]
