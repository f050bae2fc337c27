"""Setting a parameter from an array of another toolkit, with its dims told by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.util.errors import UserError


def as_array(value: Any) -> numpy.ndarray[Any, Any]:
    """:return: a tensor of PyTorch, or anything that numpy knows, as array"""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) in ("torch.bfloat16", "torch.float16"):
            value = value.float()
    return numpy.asarray(value)


def assign(parameter: rf.Parameter, value: Any, dims: Sequence[Dim | Sequence[Dim]], *, what: str) -> None:
    """
    :param parameter: gets the value
    :param value: array, or tensor of PyTorch
    :param dims: of the axes of the value; several for an axis that is to be split
    :param what: for messages
    :raises UserError: if the shapes do not fit
    """
    array = as_array(value)
    split: list[Dim] = [dim for axis in dims for dim in ([axis] if isinstance(axis, Dim) else axis)]
    sizes = tuple(dim.dimension for dim in split)
    if array.size != numpy.prod(sizes, dtype=int) or len(array.shape) != len(dims):
        raise UserError(
            f"{what} has the shape {array.shape}, the parameter {parameter.get_full_name() or parameter.name} needs "
            f"{sizes}.\n  The models are not of the same sizes."
        )
    array = array.reshape(sizes)
    order = _axes(split, parameter.dims, what)
    tensor = rf.convert_to_tensor(
        numpy.ascontiguousarray(array.transpose(order)), dims=parameter.dims, dtype=parameter.dtype
    )
    parameter.assign(tensor)


def require(condition: bool, message: str) -> None:
    """:raises UserError: if a condition does not hold"""
    if not condition:
        raise UserError(message)


def _axes(dims: Sequence[Dim], wanted: Sequence[Dim], what: str) -> list[int]:
    """:return: for each wanted dim, the axis which has it; the same dim twice in their order"""
    free = list(range(len(dims)))
    axes = []
    for dim in wanted:
        found = next((i for i in free if dims[i] == dim and dims[i].match_priority == dim.match_priority), None)
        if found is None:
            found = next((i for i in free if dims[i] == dim), None)
        if found is None:
            raise UserError(f"{what} has the dims {dims}, the parameter {list(wanted)}.")
        free.remove(found)
        axes.append(found)
    return axes
