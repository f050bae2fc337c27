"""
Which dims of several tensors are the same, where a config gives only sizes.

Layers with the same `n_out` fit together, although each makes a dim of its own, and so do dims of the data of the same
size. A dim of size 1 can stand for a dim of another tensor, as raw tensors of TensorFlow broadcast them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_core import LayerCore


def with_common_dims(layer: LayerCore, sources: Sequence[Any], *, by_size: bool = True) -> list[Any]:
    """
    :param layer: which does this
    :param sources: operands of an elementwise operation; what is no tensor stays as it is
    :param by_size: see `matched_by_size`
    :return: with the same dims where sizes say so; see `matched_by_size` and `without_broadcast_dims`
    """
    own = [x for x in sources if isinstance(x, Tensor)]
    tensors = iter(matched_by_size(own, apart=layer.network.get_all_rec_time_dims(), by_size=by_size))
    return without_broadcast_dims(layer, [next(tensors) if isinstance(x, Tensor) else x for x in sources])


def matched_by_size(tensors: Sequence[Tensor], *, apart: Collection[Dim], by_size: bool = True) -> list[Tensor]:
    """
    :param tensors: which belong together
    :param apart: dims that are no other ones, such as those of loops around, which one frame does not have
    :param by_size: if False, dims that the config itself made are only the same as dims that layers made
    :return: with dims of fixed size replaced by those of a larger tensor which have the same size, unless these are
        there too; of the same kind if possible
    """
    known: list[Dim] = []
    matched: dict[int, Tensor] = {}
    for i in sorted(range(len(tensors)), key=lambda i: -len([dim for dim in tensors[i].dims if dim not in apart])):
        x = tensors[i]
        for dim in [d for d in x.dims if _has_fixed_size(d) and d not in (*known, *apart)]:
            free = [d for d in known if d.size == dim.size and d not in (*x.dims, *apart) and _has_fixed_size(d)]
            free = free if by_size else [d for d in free if d.auto_generated or dim.auto_generated]
            partner = _partner(dim, free)
            if partner is not None:
                x, _ = rf.replace_dim(x, in_dim=dim, out_dim=partner)
        known += [dim for dim in x.dims if dim not in known]
        matched[i] = x
    return [matched[i] for i in range(len(tensors))]


def _has_fixed_size(dim: Dim) -> bool:
    return dim.size is not None and not (dim.is_batch_dim() or dim.is_beam_dim())


def without_broadcast_dims(layer: LayerCore, sources: Sequence[Any]) -> list[Any]:
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
