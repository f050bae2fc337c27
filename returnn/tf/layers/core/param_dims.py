"""Outputs of layers as values of parameters of other layers."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.util.errors import ConfigError


def with_dims_of_param(
    layer: LayerBase, given: LayerBase, value: Tensor, dims: Sequence[Dim], *, by_order: bool = False
) -> Tensor:
    """
    :param layer: has the parameter
    :param given: the other layer
    :param value: its output
    :param dims: of the parameter
    :param by_order: whether the axes are already those of the parameter, in this order, also if the dims say otherwise
    :return: [dims...]: value; where dims differ, they stand for each other by their order and size
    :raises ConfigError: if the sizes do not fit
    """
    if set(value.dims) == set(dims) and not by_order:
        return value.copy_compatible_to_dims(dims, add_dims=False)  # a dim can be there twice, with two priorities
    value = value if by_order else _in_order_of_known_dims(value, dims)
    sizes, wanted = [dim.dimension for dim in value.dims], [dim.dimension for dim in dims]
    if sizes != wanted:
        raise ConfigError(f"{layer.where()}: {given.where()} is {value}, but {wanted} is needed.")
    out = Tensor(value.name, dims=dims, dtype=value.dtype)
    out.raw_tensor = value.raw_tensor
    return out


def _in_order_of_known_dims(value: Tensor, dims: Sequence[Dim]) -> Tensor:
    """:return: value with the axes that are among `dims` where these are; the others are between them as before"""
    axes = list(range(len(value.dims)))
    found: list[int | None] = []
    for dim in dims:
        found.append(next((axis for axis in axes if value.dims[axis] == dim), None))
        if found[-1] is not None:
            axes.remove(found[-1])
    if len(value.dims) != len(dims) or len(axes) == len(dims):
        return value
    rest = iter(axes)
    return value.copy_transpose([next(rest) if axis is None else axis for axis in found])
