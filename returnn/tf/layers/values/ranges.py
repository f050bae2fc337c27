"""0, 1, 2, ... along a dim."""

from __future__ import annotations

from typing import Any

import numpy

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.no_sources import DimsOfSourceLayer, NoSourcesLayer
from returnn.tf.layers.values.length import dim_of_lengths
from returnn.util.errors import ConfigError


def frame_numbers(dim: Dim) -> Tensor:
    """:return: [dim]: 0, 1, 2, ..., as numbers to compute with, not as indices into the dim"""
    return rf.set_sparse_dim(rf.range_over_dim(dim), None)


def number_of_step(layer: LayerBase) -> Tensor:
    """:return: int32, scalar: number of the current frame of the loop, to compute with"""
    return layer.network.get_rec_step_info().index.copy_with_roles(sparse_dim=None)


class RangeLayer(NoSourcesLayer):
    """
    `start, start + delta, start + 2 * delta, ...`, below `limit`.

    Output [range].
    """

    layer_class = "range"

    def __init__(
        self,
        limit: float,
        start: float = 0,
        delta: float = 1,
        dtype: str | None = None,
        sparse: bool = False,
        out_spatial_dim: Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param limit: which no value reaches
        :param start: first value
        :param delta: difference of the values
        :param dtype: default: "int32", or the default dtype of floats if one of the numbers is a float
        :param sparse: the values are labels, below `limit`
        :param out_spatial_dim: the dim
        """
        super().__init__(**kwargs)
        has_float = any(isinstance(value, float) for value in (limit, start, delta))
        default = rf.get_default_float_dtype() if has_float else "int32"
        self.values = numpy.arange(start, limit, delta, dtype=dtype or default)
        self.limit = limit
        self.sparse = sparse
        self.out_spatial_dim = out_spatial_dim

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [range]"""
        dim = self.out_spatial_dim or self.new_dim("range", len(self.values), auto_generated=False)
        if not dim.is_dim_known():
            dim.size = len(self.values)
        labels = self.new_dim("labels", int(self.limit), kind=Dim.Types.Feature) if self.sparse else None
        return rf.convert_to_tensor(self.values, dims=[dim], dtype=self.values.dtype.name, sparse_dim=labels)


class RangeInAxisLayer(DimsOfSourceLayer):
    """
    The numbers of the frames of a dim.

    Source [..., axis], output [axis]. If `axis` is a `Dim`, no source is needed.
    """

    layer_class = "range_in_axis"
    recurrent = True

    def __init__(
        self,
        axis: Any,
        dtype: str = "int32",
        unbroadcast: bool = False,
        keepdims: bool = False,
        sparse: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: the dim, by description; "sparse_dim": the labels of the source
        :param dtype: of the numbers
        :param unbroadcast: with all dims of the source
        :param keepdims: with dims of size 1 in place of the other dims of the source
        :param sparse: the numbers are indices into the dim
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.dtype = dtype
        self.unbroadcast = unbroadcast
        self.keepdims = keepdims
        self.sparse = sparse

    def given_dims(self) -> list[Any]:
        """:return: the dim"""
        return [self.axis]

    def compute(self, source: Tensor, *_others: Tensor) -> Tensor:
        """:return: [axis]"""
        is_of_labels = source.sparse_dim is not None and self.axis in ("sparse_dim", source.sparse_dim)
        axis = source.sparse_dim if is_of_labels else self.dim_of(source, self.axis, option="axis")
        out = _numbers(self, axis, self.dtype, self.sparse)
        others = [dim for dim in self.dims_of(source, "all") if dim != axis]
        if self.unbroadcast:
            out = rf.expand_dims(out, others)
        elif self.keepdims:
            out = rf.expand_dims(out, self.new_dims_of_size_one("kept", others, beside=out.dims))
        return out


class RangeFromLengthLayer(LayerBase):
    """
    The numbers of the frames of sequences, for given lengths.

    Source [B], the lengths; output [T], where T has these lengths. If they are the output of a layer of class "length",
    T is the dim which that one belongs to.
    """

    layer_class = "range_from_length"
    recurrent = True

    def __init__(
        self, dtype: str = "int32", sparse: bool = False, out_spatial_dim: Dim | None = None, **kwargs: Any
    ) -> None:
        """
        :param dtype: of the numbers
        :param sparse: the numbers are indices into the dim
        :param out_spatial_dim: the dim
        """
        super().__init__(**kwargs)
        self.dtype = dtype
        self.sparse = sparse
        self.out_spatial_dim = out_spatial_dim
        if len(self.sources) != 1:
            raise ConfigError(f"{self.where()}: one source is required (option 'from'), the lengths.")

    def compute(self, lengths: Tensor) -> Tensor:
        """:return: [T]"""
        known = dim_of_lengths(self.sources[0])
        dim = self.out_spatial_dim or known or self.new_dim("range")
        if dim is not known and dim.size is None and dim.dyn_size is None:
            if known is not None:
                dim.declare_same_as(known)
            else:
                dim.dyn_size_ext = rf.set_sparse_dim(rf.cast(lengths, "int32"), None)
        return _numbers(self, dim, self.dtype, self.sparse)


def _numbers(layer: LayerBase, dim: Dim, dtype: str, sparse: bool) -> Tensor:
    if sparse and not dtype.startswith("int"):
        raise ConfigError(f"{layer.where()}: option 'dtype': indices cannot be {dtype!r}.")
    return rf.range_over_dim(dim, dtype=dtype).copy_with_roles(sparse_dim=dim if sparse else None)
