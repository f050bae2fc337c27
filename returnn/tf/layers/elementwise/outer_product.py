"""Outer products by mistake: an elementwise operation where no source has all dims of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.time_dims_of_data import hint_for_time_dims
from returnn.util.not_specified import NotSpecified


def outer_product_warning(layer: LayerBase, operands: Sequence[Any]) -> str | None:
    """
    :param layer: which does an elementwise operation, outside of loops or inside of one
    :param operands: tensors, where the same dim is the same object; and numbers
    :return: warning in one line, if one operand has dims that another one lacks, and the reverse. The batch, beams and
        the loops around do not count.
    """
    loop_dims = layer.network.get_all_rec_time_dims()
    tensors = [x for x in operands if isinstance(x, Tensor)]
    dims = [
        {dim for dim in x.dims if not (dim.is_batch_dim() or dim.is_beam_dim() or dim in loop_dims)} for x in tensors
    ]
    if not dims or set().union(*dims) in dims:
        return None
    text = (
        f"{layer.where()}: an outer product, as no source has all dims: {_shapes(tensors)}. "
        "If that is meant, say so by 'allow_broadcast_all_sources': True; since behavior_version 4, it is an error."
    )
    return f"{text} {hint_for_time_dims(layer.network, tensors, loop_dims)}".rstrip()


def feature_product_warning(layer: LayerBase, operands: Sequence[Any]) -> str | None:
    """
    As `outer_product_warning`, for layers that are often meant to broadcast: only feature dims count, and no warning if
    the config says what the output looks like.
    """
    options = (layer._out_shape, layer._out_type, layer._out_dim, layer._n_out)
    if any(option is not None and option is not NotSpecified for option in options):
        return None
    tensors = [x for x in operands if isinstance(x, Tensor)]
    features = {x.feature_dim for x in tensors if x.feature_dim in x.dims}
    if not features or any(features <= set(x.dims) for x in tensors):
        return None
    return (
        f"{layer.where()}: an outer product, as no source has all feature dims: {_shapes(tensors)}. "
        "If that is meant, say so by 'out_shape'."
    )


def _shapes(tensors: Sequence[Tensor]) -> str:
    return " and ".join(x.get_description(with_name=False) for x in tensors)
