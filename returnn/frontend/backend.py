"""Which backend is selected, and what kind of backend it is."""

from __future__ import annotations

from returnn.frontend._backend import (
    get_global_backend,
    get_selected_backend,
    is_executing_eagerly,
    select_backend,
    select_backend_numpy,
    select_backend_returnn_layers_tf,
    select_backend_tf,
    select_backend_torch,
)

__all__ = [
    "get_selected_backend",
    "is_backend_raw_tensor_dim_tag_independent",
    "is_executing_eagerly",
    "select_backend",
    "select_backend_numpy",
    "select_backend_returnn_layers_tf",
    "select_backend_tf",
    "select_backend_torch",
]


def is_backend_raw_tensor_dim_tag_independent() -> bool:
    """:return: whether raw tensors of the selected backend know nothing about dims"""
    return get_global_backend().is_backend_raw_tensor_dim_tag_independent
