"""
Whether two net dicts describe the same network, so that it need not be built again.

`get_network(epoch)` makes its dict anew for each epoch. The functions and dims in it are new objects then, although
they mean the same: functions are compared by their code and what they see, dims by their kind, size and name.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import CellType, FunctionType
from typing import Any

import numpy

from returnn.tensor import Dim, Tensor

_EMPTY_CELL = object()


def is_same_net(one: Any, other: Any) -> bool:
    """
    :param one: net dict, or a part of it
    :param other: net dict, or a part of it
    :return: whether there is no difference, apart from the identity of functions and dims. If in doubt, there is one
    """
    return _Comparison().is_same(one, other)


class _Comparison:
    """Keeps which dims of both nets belong together: one may not stand for two of the other."""

    def __init__(self) -> None:
        self._dims: dict[int, Dim] = {}
        self._dims_back: dict[int, Dim] = {}
        self._functions: set[tuple[int, int]] = set()

    def is_same(self, one: Any, other: Any) -> bool:
        if type(one) is not type(other):
            return False
        if isinstance(one, Dim):
            return self._is_same_dim(one, other)
        if one is other:
            return True
        if isinstance(one, Tensor):
            return self._is_same_template(one, other)
        if isinstance(one, Mapping):
            return list(one) == list(other) and all(self.is_same(one[key], other[key]) for key in one)
        if isinstance(one, (list, tuple)):
            return len(one) == len(other) and all(map(self.is_same, one, other))
        if isinstance(one, FunctionType):
            return self._is_same_function(one, other)
        if isinstance(one, functools.partial):
            return all(self.is_same(getattr(one, name), getattr(other, name)) for name in ("func", "args", "keywords"))
        if isinstance(one, CellType):
            return self.is_same(_content(one), _content(other))
        if isinstance(one, numpy.ndarray):
            return bool(numpy.array_equal(one, other))
        return bool(one == other)

    def _is_same_template(self, one: Tensor, other: Tensor) -> bool:
        """:return: whether both describe the same data; values are as different as any objects"""
        if one.raw_tensor is not None or other.raw_tensor is not None:
            return False
        parts = ("dims", "sparse_dim", "dtype", "time_dim_axis", "feature_dim_axis", "vocab", "available_for_inference")
        return all(self.is_same(getattr(one, part), getattr(other, part)) for part in parts)

    def _is_same_dim(self, one: Dim, other: Dim) -> bool:
        known, known_back = self._dims.setdefault(id(one), other), self._dims_back.setdefault(id(other), one)
        if known is not other or known_back is not one:
            return False
        if one is other:
            return True
        return (one.kind, one.dimension, one.description) == (other.kind, other.dimension, other.description)

    def _is_same_function(self, one: FunctionType, other: FunctionType) -> bool:
        key = (id(one), id(other))
        if key in self._functions:  # it sees itself
            return True
        self._functions.add(key)
        return (
            one.__code__ == other.__code__
            and one.__globals__ is other.__globals__
            and self.is_same(one.__defaults__, other.__defaults__)
            and self.is_same(one.__kwdefaults__, other.__kwdefaults__)
            and self.is_same(one.__closure__, other.__closure__)
        )


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY_CELL
