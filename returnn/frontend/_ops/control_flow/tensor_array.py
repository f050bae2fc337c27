"""Arrays of tensors, which grow. Here as eager backends have them: lists."""

from __future__ import annotations

from typing import Any

from returnn.frontend._ops.axes import AxesOps
from returnn.frontend._ops.concat import ConcatOps
from returnn.frontend._ops.creation import CreationOps
from returnn.frontend._ops.gather import GatherOps
from returnn.frontend._ops.limits import zero_value
from returnn.tensor import Dim, Tensor


class TensorArrayOps(GatherOps, CreationOps, AxesOps, ConcatOps):
    """Arrays of tensors. They are values: an operation returns a new array, and leaves the old one as it is."""

    TensorArrayType: Any = list

    @classmethod
    def tensor_array_create(cls) -> Any:
        """:return: array without elements"""
        return []

    @classmethod
    def tensor_array_unstack(cls, tensor: Tensor, *, axis: Dim) -> Any:
        """:return: array of the frames along the axis"""
        size = int(axis.get_dim_value())
        return [cls.gather(tensor, indices=i, axis=axis) for i in range(size)]

    @classmethod
    def tensor_array_stack(cls, tensor_array: Any, *, axis: Dim, tensor_template: Tensor) -> Tensor:
        """
        :param tensor_array: array
        :param axis: new dim over the elements
        :param tensor_template: what an element looks like
        :return: [axis, ...]
        """
        dims = [axis, *tensor_template.dims]
        if not tensor_array:
            zero, labels = zero_value(tensor_template.dtype), tensor_template.sparse_dim
            result: Tensor = cls.full(dims, zero, dtype=tensor_template.dtype, sparse_dim=labels)
            return result
        elements = []
        for element in tensor_array:
            for dim in tensor_template.dims:
                if dim not in element.dims:
                    element = cls.expand_dim(element, dim)
            elements.append(element)
        return cls.stack(elements, out_dim=axis)

    @classmethod
    def tensor_array_push_back(cls, tensor_array: Any, value: Tensor) -> Any:
        """:return: array with one more element"""
        return [*tensor_array, value]

    @classmethod
    def tensor_array_get_item(cls, tensor_array: Any, index: int | Tensor) -> Tensor:
        """
        :param tensor_array: array
        :param index: number or scalar
        :return: the element
        """
        number = index if isinstance(index, int) else int(index.raw_tensor)
        if not -len(tensor_array) <= number < len(tensor_array):
            raise IndexError(f"TensorArray: there is no element {number}, as it has {len(tensor_array)}.")
        return tensor_array[number]  # type: ignore[no-any-return]

    @classmethod
    def tensor_array_length(cls, tensor_array: Any) -> int | Tensor:
        """:return: number of elements"""
        return len(tensor_array)
