"""Numpy arrays in dicts of tensors, made tensors of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from returnn.tensor import Tensor, TensorDict


def tensor_dict_numpy_to_torch_(x: TensorDict) -> None:
    """
    Makes all values and lengths tensors of PyTorch, in place.

    :param x: its values are numpy arrays
    """
    for dim in x.all_dims():
        lengths = None if dim.size is not None else dim.dyn_size_ext
        if lengths is not None:
            tensor_numpy_to_torch_(lengths)
    for tensor in x.data.values():
        tensor_numpy_to_torch_(tensor)


def tensor_numpy_to_torch_(x: Tensor) -> None:
    """
    Makes the value a tensor of PyTorch, in place. PyTorch has no texts, so they stay.

    :param x: its value is a numpy array, or there is none
    """
    if isinstance(x.raw_tensor, (numpy.ndarray, numpy.generic)):
        x.raw_tensor = numpy_to_torch(x.raw_tensor)


def numpy_to_torch(value: Any) -> Any:
    """:return: tensor of PyTorch; of texts, the array itself"""
    value = numpy.asarray(value)
    if value.dtype.kind in "USO":
        return value
    if value.dtype in (numpy.uint16, numpy.uint32):  # few operations of PyTorch have them
        value = value.astype("int32" if value.dtype == numpy.uint16 else "int64")
    return torch.from_numpy(numpy.ascontiguousarray(value)) if value.ndim else torch.tensor(value)


def torch_to_numpy(value: torch.Tensor) -> numpy.ndarray:
    """:return: array; floats that numpy does not have as float32"""
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
