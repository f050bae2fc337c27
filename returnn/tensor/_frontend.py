"""
The way from tensors up to the operations on them.

`Tensor` and `Dim` offer operators, masks and layout changes, which are operations of `returnn.frontend`, a floor above.
So the frontend registers itself here when it is imported. Nothing in this package depends on it before the first
operation, which imports it. What is needed of it is declared here.
Tensors and dims have no types in there, as their classes are above this module.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")  # a tensor


class RawBackend(Protocol):
    """What tensors need of the backend that a raw tensor belongs to: the part of `returnn.frontend.Backend`."""

    is_backend_raw_tensor_dim_tag_independent: bool

    def executing_eagerly(self) -> bool:
        """:return: whether values are computed at once"""

    def get_ndim_raw(self, raw_tensor: Any, /) -> int:
        """:return: number of axes"""

    def get_known_shape_raw(self, raw_tensor: Any, /) -> tuple[int | None, ...]:
        """:return: sizes of the axes, None where they are only known when it is computed"""

    def get_shape_tuple_raw(self, raw_tensor: Any, /) -> tuple[Any, ...]:
        """:return: sizes of the axes, as raw scalars where they are only known when it is computed"""

    def get_dtype_name_raw(self, raw_tensor: Any, /) -> str:
        """:return: such as "float32" """

    def is_computed_from_own_input(self, tensor: Any, /) -> bool:
        """:return: whether the value follows from what is fed for this tensor, in a graph"""

    def is_computed_from_constants(self, tensor: Any, /) -> bool:
        """:return: whether nothing has to be fed for the value, in a graph"""

    def get_device(self, tensor: Any, /) -> str | None:
        """:return: where the value is"""

    def transpose_raw(self, raw_tensor: Any, perm: Sequence[int], /) -> Any:
        """:return: raw tensor with its axes in this order"""

    def squeeze_raw(self, raw_tensor: Any, axes: Sequence[int], /) -> Any:
        """:return: raw tensor without these axes, which have size 1"""

    def expand_dims_raw(self, raw_tensor: Any, axis: int, /) -> Any:
        """:return: raw tensor with another axis of size 1"""

    def expand_raw(self, raw_tensor: Any, axis: int, size: Any, /) -> Any:
        """:return: raw tensor, repeated along an axis of size 1"""

    def create_placeholder_raw(self, tensor: Any, /) -> Any:
        """:return: placeholder for the value of a template"""

    def should_pickle_tensor(self, raw_tensor: Any, /) -> bool:
        """:return: whether the value can be pickled with the tensor"""

    def runtime_sanity_checks(self, tensor: Any, /) -> Any:
        """:return: operation that checks the value against the dims; None if that was done at once"""

    def identity_with_control_dependencies_raw(self, raw_tensor: Any, dependencies: list[Any], /) -> Any:
        """:return: the same, computed after the dependencies"""

    def is_valid_in_current_graph(self, tensor: Any, /) -> bool:
        """:return: whether the value can be used here"""

    def graph_of_value(self, tensor: Any, /) -> AbstractContextManager[Any]:
        """:return: in there, operations are made in the graph of the value"""


class Operations(Protocol):
    """What tensors and dims need of `returnn.frontend`; the documentation is there."""

    def get_backend_by_name(self, name: str, /) -> RawBackend: ...
    def get_backend_by_raw_tensor_type(self, tensor_type: type, /) -> RawBackend: ...
    def get_backend_by_tensor(self, tensor: Any, /) -> RawBackend: ...
    def get_run_ctx(self) -> Any: ...

    def convert_to_tensor(
        self,
        value: Any,
        dims: Sequence[Any],
        dtype: str | None = None,
        *,
        name: str | None = None,
        device: str | None = None,
    ) -> Any: ...
    def full(self, *, dims: Sequence[Any], fill_value: Any, dtype: str | None = None) -> Any: ...
    def range_over_dim(self, dim: Any, *, device: str | None = None) -> Any: ...
    def num_elements_of_shape(self, dims: Sequence[Any], /) -> Any: ...
    def copy_to_device(self, x: T, device: str | None, /) -> T: ...

    def abs(self, x: T, /) -> T: ...
    def ceil(self, x: T, /) -> T: ...
    def floor(self, x: T, /) -> T: ...
    def logical_not(self, x: T, /) -> T: ...
    def neg(self, x: T, /) -> T: ...
    def maximum(self, a: T, b: Any, /) -> T: ...
    def minimum(self, a: T, b: Any, /) -> T: ...
    def combine(self, a: Any, kind: str, b: Any, /) -> Any: ...
    def combine_bc(self, a: T, kind: str, b: T, /, *, dim_order: Sequence[Any] | None = None) -> T: ...
    def compare(self, a: Any, kind: str, b: Any, /, *, dim_order: Sequence[Any] | None = None) -> Any: ...
    def where(self, cond: Any, true_: T, false_: Any, /, *, allow_broadcast_all_sources: bool) -> T: ...
    def reduce_max(self, source: T, /, *, axis: Sequence[Any], use_mask: bool) -> T: ...
    def reduce_sum(self, source: T, /, *, axis: Sequence[Any]) -> T: ...

    def expand_dim(self, source: T, dim: Any, /) -> T: ...
    def expand_to(self, source: T, dims: Iterable[Any], /) -> T: ...
    def split_dims(self, source: T, /, *, axis: Any, dims: Sequence[Any]) -> T: ...
    def merge_dims(self, source: T, /, *, dims: Sequence[Any], out_dim: Any = None) -> tuple[T, Any]: ...
    def masked_select(self, source: T, /, *, mask: Any, dims: Sequence[Any]) -> tuple[T, Any]: ...


_frontend: Operations | None = None


def register_frontend(module: ModuleType) -> None:
    """Called once by `returnn.frontend`, with itself."""
    global _frontend
    _frontend = cast(Operations, module)


def operations() -> Operations:
    """
    :return: the module `returnn.frontend`
    """
    if _frontend is None:  # scripts may have imported `Tensor` or `Data` alone
        importlib.import_module("returnn.frontend")
    assert _frontend is not None
    return _frontend


def frontend() -> Any:
    """:return: the module `returnn.frontend`, for its own parts that are below it"""
    return operations()


def backend_of_raw(raw_tensor: Any) -> RawBackend:
    """:return: the `Backend` class for this raw tensor"""
    return operations().get_backend_by_raw_tensor_type(type(raw_tensor))
