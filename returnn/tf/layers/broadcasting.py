"""Dims of size 1 which stand for a dim of another tensor, as raw tensors of TensorFlow broadcast them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor

if TYPE_CHECKING:
    from returnn.tf.layers.layer_base import LayerBase


def without_broadcast_dims(layer: LayerBase, sources: Sequence[Any]) -> list[Any]:
    """
    :param layer: which does this. The dims of loops around do not count: one frame does not have them.
    :param sources: operands of an elementwise operation; what is no tensor stays as it is
    :return: without the dims of size 1 in place of which another operand has a dim that this one lacks:
        `[B, T, 1]` beside `[B, T, F]` becomes `[B, T]`
    """
    tensors = [source for source in sources if isinstance(source, Tensor)]
    if len(tensors) < 2 or not any(dim.size == 1 for x in tensors for dim in x.dims):
        return list(sources)
    loop_dims = layer.network.get_all_rec_time_dims()
    dims = [d for x in tensors for d in x.dims if d.size != 1 and d not in loop_dims]
    dims = [d for d in dims if not (d.is_batch_dim() or d.is_beam_dim())]
    return [_squeezed(source, dims, tensors) if isinstance(source, Tensor) else source for source in sources]


def _squeezed(source: Tensor, dims: Sequence[Dim], others: Sequence[Tensor]) -> Tensor:
    ones = [dim for dim in source.dims if dim.size == 1 and not (dim.is_batch_dim() or dim.is_beam_dim())]
    missing = list(dict.fromkeys(dim for dim in dims if dim not in source.dims))
    for dim in sorted(ones, key=lambda d: not d.is_feature_dim()):
        partner = _partner(dim, missing)
        if partner is not None and not _has_with(dim, partner, others):
            missing.remove(partner)
            source = rf.squeeze(source, dim)
    return source


def _partner(dim: Dim, missing: Sequence[Dim]) -> Dim | None:
    """:return: the dim in place of which it stands, if any; one of the same kind if possible"""
    same_kind = [other for other in missing if other.is_feature_dim() == dim.is_feature_dim()]
    return next(iter([*same_kind, *missing]), None)


def _has_with(dim: Dim, partner: Dim, tensors: Sequence[Tensor]) -> bool:
    """:return: whether some tensor has both, so that one does not stand for the other"""
    return any(dim in x.dims and partner in x.dims for x in tensors)
