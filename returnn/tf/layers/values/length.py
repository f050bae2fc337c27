"""Lengths of sequences, as values."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.no_sources import DimsOfSourceLayer


def dim_of_lengths(layer: LayerBase) -> Dim | None:
    """:return: the dim whose lengths are the output of the layer, None if it is not a `LengthLayer`"""
    return layer.own_dims.lengths_of


def raw_lengths(dim: Dim, batch: Dim) -> Any:
    """
    :param dim: of sequences
    :param batch: dim of the batch
    :return: raw (B,), int32: how long each sequence is, in frames, also where all are as long as the dim
    """
    lengths = rf.cast(dim.get_size_tensor(), "int32")
    return lengths.copy_compatible_to_dims([batch], unbroadcast=True).raw_tensor


class LengthLayer(DimsOfSourceLayer):
    """
    How long each sequence is, in frames; for other dims, their size.

    Source [B, T, ...], output [B]; for a dim of fixed size and for the batch dim, a scalar. If `axis` is a `Dim`, no
    source is needed.
    """

    layer_class = "length"

    def __init__(
        self, axis: Any = "T", add_time_axis: bool = False, dtype: str = "int32", sparse: bool = False, **kwargs: Any
    ) -> None:
        """
        :param axis: the dim, by description; "sparse_dim" for the number of labels
        :param add_time_axis: with a time dim of size 1
        :param dtype: of the output
        :param sparse: the output are indices into the dim
        """
        super().__init__(**kwargs)
        self.axis = axis
        self.add_time_axis = add_time_axis
        self.dtype = dtype
        self.sparse = sparse

    def given_dims(self) -> list[Any]:
        """:return: the dim"""
        return [self.axis]

    def compute(self, source: Tensor, *_others: Tensor) -> Tensor:
        """:return: the lengths"""
        dim = source.sparse_dim if self.axis == "sparse_dim" else None
        dim = dim or self.dim_of(source, self.axis, option="axis")
        self.own_dims.lengths_of = dim
        out = rf.cast(dim.get_size_tensor(), self.dtype)
        if self.add_time_axis:
            time = self.new_dim("time", 1)
            out = rf.expand_dim(out, time).copy_with_roles(time_dim=time)
        if self.sparse:
            out = rf.set_sparse_dim(out, dim)
        return out
