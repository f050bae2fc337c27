"""Labels as distributions."""

from __future__ import annotations

from typing import Any

from returnn.frontend._array.convert import cast, convert_to_tensor, where
from returnn.frontend._ops.operands import fail
from returnn.frontend._ranges import range_over_dim
from returnn.frontend.dtype import get_default_float_dtype
from returnn.frontend.math_ import compare_bc
from returnn.tensor import Dim, Tensor


def one_hot(source: Tensor) -> Tensor:
    """
    :param source: {...}, with a sparse dim
    :return: [..., sparse_dim], float: 1 at the label, 0 elsewhere
    """
    return cast(_is_label(source, _axis(source, None, "one_hot")), get_default_float_dtype())


def sparse_to_dense(labels: Tensor | int, *, label_value: Any, other_value: Any, axis: Dim | None = None) -> Tensor:
    """
    :param labels: {...}, with a sparse dim; or one label
    :param label_value: number or tensor, at the label
    :param other_value: number or tensor, elsewhere
    :param axis: the labels; default: the sparse dim. Needed for one label
    :return: [..., axis]
    """
    if isinstance(labels, int):
        labels = convert_to_tensor(labels, sparse_dim=axis)
    axis = _axis(labels, axis, "sparse_to_dense")
    return where(_is_label(labels, axis), label_value, other_value, allow_broadcast_all_sources=True)


def _axis(labels: Tensor, axis: Dim | None, operation: str) -> Dim:
    axis = axis or labels.sparse_dim
    if axis is None:
        raise fail(f"{operation}: {labels} has no sparse dim.", "See rf.set_sparse_dim.")
    return axis


def _is_label(labels: Tensor, axis: Dim) -> Tensor:
    label = range_over_dim(axis, dtype=labels.dtype)
    return compare_bc(labels, "==", label, dim_order=[*labels.dims, axis]).copy_with_roles(feature_dim=axis)
