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
    """
    if set(value.dims) == set(dims) and not by_order:
        return value.copy_compatible_to_dims(dims, add_dims=False)  # a dim can be there twice, with two priorities
    sizes, wanted = [dim.dimension for dim in value.dims], [dim.dimension for dim in dims]
    if sizes != wanted:
        raise ConfigError(f"{layer.where()}: {given.where()} is {value}, but {wanted} is needed.")
    out = Tensor(value.name, dims=dims, dtype=value.dtype)
    out.raw_tensor = value.raw_tensor
    return out
