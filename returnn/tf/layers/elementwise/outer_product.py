"""Outer products by mistake: an elementwise operation where no source has all dims of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase


def outer_product_warning(layer: LayerBase, operands: Sequence[Any]) -> str | None:
    """
    :param layer: which does an elementwise operation, outside of loops or inside of one
    :param operands: tensors, where the same dim is the same object; and numbers
    :return: warning in one line, if one operand has dims that another one lacks, and the reverse. The batch, beams and
        the loops around do not count.
    """
    loop_dims = layer.network.get_all_rec_time_dims()
    dims = [
        {dim for dim in x.dims if not (dim.is_batch_dim() or dim.is_beam_dim() or dim in loop_dims)}
        for x in operands
        if isinstance(x, Tensor)
    ]
    if not dims or set().union(*dims) in dims:
        return None
    shapes = " and ".join(x.get_description(with_name=False) for x in operands if isinstance(x, Tensor))
    return (
        f"{layer.where()}: an outer product, as no source has all dims: {shapes}. "
        "If that is meant, say so by 'allow_broadcast_all_sources': True; since behavior_version 4, it is an error."
    )
