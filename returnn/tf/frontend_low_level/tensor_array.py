"""Arrays of tensors in TensorFlow graphs: its tensor lists, which are values, so that they go through loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor


@dataclass(frozen=True)
class TensorList:
    """An array of tensors."""

    handle: tf.Tensor | None = None  # None: nothing is known about the elements yet
    template: Tensor | None = None  # of an element; says the layout


class TensorArrayTFOps:
    """For their meaning see `returnn.frontend._backends.required`."""

    TensorArrayType = TensorList

    @classmethod
    def tensor_array_create(cls) -> TensorList:
        """:return: array without elements"""
        return TensorList()

    @classmethod
    def tensor_array_unstack(cls, tensor: Tensor, *, axis: Dim) -> TensorList:
        """:return: array of the frames along the axis"""
        first = tensor.copy_move_axis(tensor.get_axis_from_description(axis), 0)
        template = first.copy_template_excluding_axis(0)
        handle = tf.raw_ops.TensorListFromTensor(tensor=first._raw_tensor, element_shape=_known_shape(template.dims))
        return TensorList(handle, template)

    @classmethod
    def tensor_array_stack(cls, tensor_array: TensorList, *, axis: Dim, tensor_template: Tensor) -> Tensor:
        """:return: [axis, ...]"""
        array = with_handle(tensor_array, tensor_template)
        template = array.template
        assert template is not None
        shape = [dim.get_dim_value() for dim in template.dims]
        out = template._insert_dim(axis, 0)
        out._raw_tensor = tf.raw_ops.TensorListStack(
            input_handle=array.handle,
            element_shape=tf.convert_to_tensor(shape, tf.int32),
            element_dtype=tf.as_dtype(template.dtype),
        )
        out._raw_tensor.set_shape([axis.size, *_sizes(template.dims)])
        return out

    @classmethod
    def tensor_array_push_back(cls, tensor_array: TensorList, value: Tensor) -> TensorList:
        """:return: array with one more element"""
        array = with_handle(tensor_array, value)
        assert array.template is not None
        raw = value.copy_compatible_to_dims(array.template.dims, unbroadcast=True)._raw_tensor
        handle = tf.raw_ops.TensorListPushBack(input_handle=array.handle, tensor=raw)
        return TensorList(handle, array.template)

    @classmethod
    def tensor_array_get_item(cls, tensor_array: TensorList, index: int | Tensor) -> Tensor:
        """:return: the element"""
        template = tensor_array.template
        assert template is not None
        out = template.copy_template()
        out._raw_tensor = tf.raw_ops.TensorListGetItem(
            input_handle=tensor_array.handle,
            index=index._raw_tensor if isinstance(index, Tensor) else index,
            element_shape=_known_shape(template.dims),
            element_dtype=tf.as_dtype(template.dtype),
        )
        out._raw_tensor.set_shape(_sizes(template.dims))
        return out

    @classmethod
    def tensor_array_length(cls, tensor_array: TensorList) -> int | Tensor:
        """:return: number of elements"""
        if tensor_array.handle is None:
            return 0
        raw = tf.raw_ops.TensorListLength(input_handle=tensor_array.handle)
        return Tensor("length", dims=(), dtype="int32", raw_tensor=raw)


def with_handle(array: TensorList, template: Tensor) -> TensorList:
    """:return: the array, whose elements look like the template if nothing is known about them yet"""
    if array.handle is not None:
        return array
    handle = tf.raw_ops.EmptyTensorList(
        element_shape=_known_shape(template.dims), max_num_elements=-1, element_dtype=tf.as_dtype(template.dtype)
    )
    return TensorList(handle, template.copy_template())


def _sizes(dims: Sequence[Dim]) -> list[int | None]:
    return [dim.size if dim.capacity is None else dim.capacity for dim in dims]


def _known_shape(dims: Sequence[Dim]) -> Any:
    return tf.constant([-1 if size is None else size for size in _sizes(dims)], tf.int32, shape=[len(dims)])
