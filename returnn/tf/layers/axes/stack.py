"""Several tensors, or one several times, along a dim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.options.broadcasting import matched_by_size
from returnn.util.errors import ConfigError


class StackLayer(LayerBase):
    """
    The sources behind each other along a new dim.

    Sources [...], output [..., stack].
    """

    layer_class = "stack"

    def __init__(self, axis: int | None = None, out_spatial_dim: Dim | None = None, **kwargs: Any) -> None:
        """
        :param axis: where the new axis stands in memory, counted with the batch axis. Default: behind the spatial axes
        :param out_spatial_dim: the new dim
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.out_spatial_dim = out_spatial_dim
        if not self.sources:
            raise ConfigError(f"{self.where()}: a source is required (option 'from').")

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: [..., stack]"""
        beside = [dim for x in sources for dim in x.dims]
        dim = self.out_spatial_dim or self.new_dim_beside("stack", len(sources), beside)
        matched = matched_by_size(sources, apart=self.network.get_all_rec_time_dims())
        common = Tensor.get_common_data(matched)
        assert common is not None
        complete = [rf.expand_to(x, common.dims) for x in matched]
        out, _ = rf.stack(complete, out_dim=dim)
        axis = common.get_default_new_axis_for_dim_tag(dim) if self.axis is None else self.axis
        return out.copy_move_axis(0, axis)


class TileLayer(_ConcatInputLayer):
    """
    The frames of a dim several times: `a b c` becomes `a b c a b c`.

    Source [..., axis], output [..., multiple * axis].
    """

    layer_class = "tile"

    def __init__(self, multiples: Mapping[Any, int], out_dims: Mapping[Any, Dim] | None = None, **kwargs: Any) -> None:
        """
        :param multiples: axis by description -> how often
        :param out_dims: axis by description -> the new dim
        """
        super().__init__(**kwargs)
        self.multiples = multiples
        self.out_dims = out_dims or {}

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., multiple * axis]"""
        dims = {axis: self.dim_of(source, axis, option="multiples") for axis in self.multiples}
        dims.update((axis, self.dim_of(source, axis, option="out_dims")) for axis in self.out_dims)
        out_dims = {dims[axis]: out_dim for axis, out_dim in self.out_dims.items()}
        for axis in self.out_dims:
            if dims[axis] not in [dims[other] for other in self.multiples]:
                raise ConfigError(f"{self.where()}: option 'out_dims': {axis!r} is not among the 'multiples'.")
        out = source
        for axis, multiple in self.multiples.items():
            dim = dims[axis]
            is_feature = out.feature_dim == dim
            out, new_dim = rf.concat(*[(out, dim)] * multiple, out_dim=out_dims.get(dim))
            if is_feature:
                out = out.copy_with_roles(feature_dim=new_dim)
        return out
