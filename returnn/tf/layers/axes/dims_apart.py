"""Dims of the same size can be equal. So what becomes of an axis can be equal to another dim of the source."""

from __future__ import annotations

from collections.abc import Callable

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase


def apart_from(layer: LayerBase, new: Dim, source: Tensor, *, axis: Dim) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """
    :param layer: that makes something of the axis
    :param new: what becomes of the axis
    :param source: tensor
    :param axis: of it
    :return: the source with another dim in place of one that is equal to `new`; a function from what was made of it to
        the same with the dims of the source, beside which the new one is an own one then
    """
    equal = [dim for dim in source.dims if dim == new and dim != axis]
    if new.size is None or not equal:
        return source, lambda out: out
    stand_in = layer.new_dim(f"beside:{new.name}", new.size, kind=new.kind, auto_generated=False)
    own = layer.new_dim(f"own:{new.name}", new.size, kind=new.kind, auto_generated=False)

    def named(out: Tensor) -> Tensor:
        out, _ = rf.replace_dim(out, in_dim=new, out_dim=own)
        return rf.replace_dim(out, in_dim=stand_in, out_dim=equal[0])[0]

    return rf.replace_dim(source, in_dim=equal[0], out_dim=stand_in)[0], named
