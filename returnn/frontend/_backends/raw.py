"""Operations on raw tensors: what a backend has to say about its tensors, without knowledge of dims."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor

T = TypeVar("T")


class RawOps(Generic[T]):
    """Operations on raw tensors of type T. All are static or class methods: backends have no state."""

    name: str | None = None
    RawTensorType: type[T]
    is_tensorflow: bool = False
    is_backend_raw_tensor_dim_tag_independent: bool = True
    dispatch_priority: int = 0  # of two tensors of different backends, the one with the higher number decides

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: whether operations are computed at once, rather than added to a graph"""
        raise NotImplementedError

    @staticmethod
    def get_dtype_name_raw(raw_tensor: T) -> str:
        """:return: dtype, such as "float32" """
        raise NotImplementedError

    @staticmethod
    def as_dtype_raw(dtype_name: str) -> Any:
        """
        :param dtype_name: such as "float32"
        :return: what the backend calls it
        """
        raise NotImplementedError

    @staticmethod
    def get_ndim_raw(raw_tensor: T) -> int:
        """:return: number of axes"""
        raise NotImplementedError

    @staticmethod
    def get_shape_raw(raw_tensor: T) -> Any:
        """:return: shape, as the backend has it: a tensor, or a tuple"""
        raise NotImplementedError

    @staticmethod
    def get_shape_tuple_raw(raw_tensor: T) -> tuple[int | T, ...]:
        """:return: size of each axis, as number where known, otherwise as raw scalar"""
        raise NotImplementedError

    @staticmethod
    def get_known_shape_raw(raw_tensor: T) -> tuple[int | None, ...]:
        """:return: size of each axis, None where it is not known. Makes no operations."""
        raise NotImplementedError

    @staticmethod
    def set_known_shape_raw(raw_tensor: T, shape: tuple[int | None, ...]) -> None:
        """Notes what is known about the shape, in a graph; checks it, in eager code."""
        raise NotImplementedError

    @staticmethod
    def get_new_dim_raw(raw_tensor: T, axis: int, *, name: str) -> Dim:
        """:return: a new dim for the axis, with its size"""
        raise NotImplementedError

    @staticmethod
    def raw_to_numpy(raw_tensor: T) -> Any:
        """:return: the value as numpy array; in a graph only if it is constant"""
        raise NotImplementedError

    @staticmethod
    def create_placeholder_raw(tensor: Tensor) -> T:
        """:return: raw tensor for this template, with a value that is given whenever the graph runs. TensorFlow only"""
        raise NotImplementedError

    @staticmethod
    def fill_raw(shape: Sequence[int | T] | T, value: Any) -> T:
        """:return: raw tensor of this shape with the scalar `value` everywhere"""
        raise NotImplementedError

    @staticmethod
    def cast_raw(raw_tensor: T, dtype: str) -> T:
        """:return: raw tensor with another dtype"""
        raise NotImplementedError

    @staticmethod
    def compare_raw(a: T, kind: str, b: T) -> T:
        """
        :param a: broadcastable to b
        :param kind: "equal", "less", "less_equal", "greater", "greater_equal", "not_equal"
        :param b: broadcastable to a
        """
        raise NotImplementedError

    @staticmethod
    def combine_raw(a: T, kind: str, b: T) -> T:
        """
        :param a: broadcastable to b
        :param kind: "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "maximum", "minimum", "logical_and",
            "logical_or", "squared_difference", "logaddexp"
        :param b: broadcastable to a
        """
        raise NotImplementedError

    @staticmethod
    def activation_raw(raw_tensor: T, func: str) -> T:
        """:return: elementwise function, such as "tanh", "sigmoid", "relu", "exp", "neg" """
        raise NotImplementedError

    @staticmethod
    def reshape_raw(raw_tensor: T, shape: Sequence[int | T] | T) -> T:
        """:return: raw tensor with the same values in another shape"""
        raise NotImplementedError

    @classmethod
    def squeeze_raw(cls, raw_tensor: T, axes: Sequence[int]) -> T:
        """:return: raw tensor without these axes of size 1"""
        raise NotImplementedError

    @staticmethod
    def transpose_raw(raw_tensor: T, perm: Sequence[int]) -> T:
        """:return: raw tensor with its axes in the order `perm`"""
        raise NotImplementedError

    @staticmethod
    def expand_dims_raw(raw_tensor: T, axis: int) -> T:
        """:return: raw tensor with a new axis of size 1"""
        raise NotImplementedError

    @staticmethod
    def expand_raw(raw_tensor: T, axis: int, dim: int | T) -> T:
        """:return: raw tensor with the values repeated along an axis which had the size 1"""
        raise NotImplementedError

    @staticmethod
    def have_sequence_mask_raw() -> bool:
        """:return: whether there is `sequence_mask_raw`"""
        return False

    @staticmethod
    def sequence_mask_raw(lengths: T, *, batch_major: bool = True) -> T:
        """
        :param lengths: (B,)
        :return: bool, (B, T) if batch_major else (T, B), True where t < lengths[b]
        """
        raise NotImplementedError

    @staticmethod
    def name_scope_raw(name: str) -> Any:
        """:return: context manager; operations made inside have the name as prefix, where operations have names"""
        return contextlib.nullcontext()

    @staticmethod
    def control_dependencies_raw(dependencies: Sequence[Any]) -> Any:
        """:return: context manager; operations made inside run after the dependencies"""
        return contextlib.nullcontext()

    @staticmethod
    def identity_with_control_dependencies_raw(raw_tensor: T, dependencies: Sequence[Any]) -> T:
        """:return: the same value, computed after the dependencies"""
        return raw_tensor

    @staticmethod
    def is_valid_in_current_graph(tensor: Tensor) -> bool:
        """:return: whether the value can be used in the current graph. Eager code has no graphs."""
        return True

    @staticmethod
    def graph_of_value(tensor: Tensor) -> Any:
        """
        :param tensor: that can be used in the current graph
        :return: context manager; operations are made in the graph of the value, such as the one around the loop that we
            are in. Eager code has no graphs.
        """
        return contextlib.nullcontext()

    @staticmethod
    def format_graph_output(raw_tensor: T, *, max_depth: int | None = None) -> str | None:
        """:return: the operations that the value is computed by, as text; None in eager code, which has no graphs"""
        return None

    @staticmethod
    def should_pickle_tensor(raw_tensor: T) -> bool:
        """:return: whether the value can go into a pickle"""
        return True

    @staticmethod
    def runtime_sanity_checks(tensor: Tensor) -> Any:
        """
        Checks that the value fits the dims and their lengths.

        :return: an operation that does so, in a graph; nothing in eager code, where it is checked now
        """
        raise NotImplementedError
