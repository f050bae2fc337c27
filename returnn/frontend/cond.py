"""Conditional execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from returnn.frontend._backend import get_backend_of
from returnn.tensor import Tensor
from returnn.util.errors import DimError, DtypeError

T = TypeVar("T")


def cond(pred: bool | Tensor, true_fn: Callable[[], T], false_fn: Callable[[], T]) -> T:
    """
    :param pred: scalar, bool
    :param true_fn: called if it is true
    :param false_fn: called if it is not; in a graph, both are called, and only one of the results is computed
    :return: what the function returns: a tensor, or a nested structure of tensors, of the same kind in both
    :raises DimError: if `pred` is no scalar
    """
    if isinstance(pred, bool):
        return true_fn() if pred else false_fn()
    if not isinstance(pred, Tensor):
        raise TypeError(f"cond: expected a bool or a tensor, got {pred!r}")
    if pred.dims:
        raise DimError(f"cond: the condition {pred} is not a scalar.\n  For a choice for each entry, see rf.where.")
    if pred.dtype != "bool":
        raise DtypeError(f"cond: the condition {pred} is not bool. Compare with something first, such as `x > 0`.")
    backend = get_backend_of(pred)
    if backend.name != "template" and backend.executing_eagerly():
        return true_fn() if bool(pred.raw_tensor) else false_fn()
    return backend.cond(pred, true_fn, false_fn)
