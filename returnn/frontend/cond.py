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
    :return: what the function returns: a nested structure (dicts, lists, tuples, states) of tensors, tensor arrays and
        dims, the same in both. Where the dims differ, as in a graph only one result can come out, it is a new dim with
        the lengths of the chosen one
    :raises DimError: if `pred` is no scalar
    :raises UserError: if the structures differ
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
    result: T = backend.cond(pred, true_fn, false_fn)
    return result


__all__ = ["cond"]
