"""Labels as distributions."""

from __future__ import annotations

import re
from typing import Any

from returnn.frontend._array.convert import cast, convert_to_tensor, where
from returnn.frontend._array.gather import gather
from returnn.frontend._backend import get_backend_of
from returnn.frontend._ops.operands import fail
from returnn.frontend._ranges import range_over_dim
from returnn.frontend.const import zeros
from returnn.frontend.dtype import get_default_float_dtype
from returnn.frontend.math_ import compare_bc
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DimError


def one_hot(source: Tensor) -> Tensor:
    """
    :param source: {...}, with a sparse dim
    :return: [..., sparse_dim], float: 1 at the label, 0 elsewhere
    :raises DimError: if a label is not in the dim, as `gather` does, and so `rf.Embedding`: on CPUs, and not in graphs
    """
    axis = _axis(source, None, "one_hot")
    _check_are_labels("one_hot", source, axis)
    return cast(_is_label(source, axis), get_default_float_dtype())


def sparse_to_dense(labels: Tensor | int, *, label_value: Any, other_value: Any, axis: Dim | None = None) -> Tensor:
    """
    :param labels: {...}, with a sparse dim; or one label
    :param label_value: number or tensor, at the label
    :param other_value: number or tensor, elsewhere
    :param axis: the labels; default: the sparse dim. Needed for one label
    :return: [..., axis]
    :raises DimError: as `one_hot`
    """
    labels = convert_to_tensor(labels, sparse_dim=axis)
    axis = _axis(labels, axis, "sparse_to_dense")
    _check_are_labels("sparse_to_dense", labels, axis)
    return where(_is_label(labels, axis), label_value, other_value, allow_broadcast_all_sources=True)


def _axis(labels: Tensor, axis: Dim | None, operation: str) -> Dim:
    axis = axis or labels.sparse_dim
    if axis is None:
        raise fail(f"{operation}: {labels} has no sparse dim.", "See rf.set_sparse_dim.")
    return axis


def _is_label(labels: Tensor, axis: Dim) -> Tensor:
    label = range_over_dim(axis, dtype=labels.dtype)
    return compare_bc(labels, "==", label, dim_order=[*labels.dims, axis]).copy_with_roles(feature_dim=axis)


def _check_are_labels(operation: str, labels: Tensor, axis: Dim) -> None:
    """:raises DimError: if one is not in the dim: zeros in its place would be taken for a label that has none"""
    if axis.size is None or labels.raw_tensor is None or labels.device not in (None, "cpu"):
        return
    if not get_backend_of(labels).executing_eagerly():
        return
    try:
        valid = labels.copy_masked(0)  # what is there in padding may be no label at all
        indices = valid if labels.dtype in ("int32", "int64") else cast(valid, "int32")
        gather(zeros([axis], dtype="bool", device="cpu"), indices=indices, axis=axis)
    except DimError as exc:
        found = re.search(r"no index (-?\d+)", str(exc))
        which = f"there is no label {found[1]}" if found else "not all of them are"
        raise fail(f"{operation}: {labels}: {which} in {axis}.", f"Possible are 0 to {axis.size - 1}.") from exc
