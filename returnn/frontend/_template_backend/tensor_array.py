"""Rules of arrays of tensors. What an element looks like is known by `returnn.frontend.tensor_array.TensorArray`."""

from __future__ import annotations

from typing import Any

from returnn.frontend._ops.operands import fail, require_dims
from returnn.tensor import Dim, Tensor


class TensorArrayRules:
    """For their meaning see `returnn.frontend._interface.tensor_array`. The array is the template of an element."""

    TensorArrayType = Tensor

    @classmethod
    def tensor_array_create(cls) -> Any:
        """:return: nothing is known about it"""
        return None

    @classmethod
    def tensor_array_unstack(cls, tensor: Tensor, *, axis: Dim) -> Tensor:
        """:return: template of an element"""
        require_dims("TensorArray.unstack", tensor, [axis])
        return tensor.copy_template_excluding_axis(tensor.get_axis_from_description(axis))

    @classmethod
    def tensor_array_stack(cls, tensor_array: Any, *, axis: Dim, tensor_template: Tensor) -> Tensor:
        """:return: template"""
        if axis in tensor_template.dims:
            raise fail(f"TensorArray.stack: the elements {tensor_template} have the dim {axis} already.")
        return tensor_template._insert_dim(axis, 0)

    @classmethod
    def tensor_array_push_back(cls, tensor_array: Any, value: Tensor) -> Tensor:
        """:return: template of an element"""
        return value.copy_template()

    @classmethod
    def tensor_array_get_item(cls, tensor_array: Any, index: int | Tensor) -> Tensor:
        """:return: template"""
        template: Tensor = tensor_array.copy_template()
        return template

    @classmethod
    def tensor_array_length(cls, tensor_array: Any) -> Tensor:
        """:return: template"""
        return Tensor("length", dims=(), dtype="int32")
