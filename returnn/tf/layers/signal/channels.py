"""Layers on features of several channels, one behind the other; and on groups of sequences."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.merged_lengths import merge_dims
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.util.errors import ConfigError


class SplitConcatMultiChannel(_ConcatInputLayer):
    """
    Makes a sequence of its own of each channel: those of the first sequence, then those of the second, ...

    Source [B, T, C * F], output [B * C, T, F].
    """

    layer_class = "split_concatenated_multichannel"

    def __init__(self, nr_of_channels: int = 1, **kwargs: Any) -> None:
        """
        :param nr_of_channels: C
        """
        super().__init__(**kwargs)
        self.nr_of_channels = nr_of_channels

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B * C, T, F]"""
        feature = source.feature_dim
        if feature is None or feature.dimension is None or feature.dimension % self.nr_of_channels:
            raise ConfigError(f"{self.where()}: {source} cannot be divided into {self.nr_of_channels} channels.")
        channel = self.new_dim("channel", self.nr_of_channels, auto_generated=False)
        own = self.output_feature_dim(feature.dimension // self.nr_of_channels)
        batch = source.get_batch_dim_tag()
        split = rf.split_dims(source, axis=feature, dims=[channel, own])
        output, _ = merge_dims(self, split, [batch, channel])
        return output.copy_with_roles(feature_dim=own)


class TileFeaturesLayer(_ConcatInputLayer):
    """
    The features, several times one behind the other.

    Source [..., F], output [..., repetitions * F].
    """

    layer_class = "tile_features"

    def __init__(self, repetitions: int = 1, **kwargs: Any) -> None:
        """
        :param repetitions: how many times
        """
        super().__init__(**kwargs)
        self.repetitions = repetitions

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., repetitions * F]"""
        feature = self.feature_dim_of(source)
        out_dim = self.output_feature_dim(self.repetitions * feature)
        output, _ = rf.concat(*[(source, feature)] * self.repetitions, out_dim=out_dim)
        return output.copy_with_roles(feature_dim=out_dim)


class BatchMedianPoolingLayer(_ConcatInputLayer):
    """
    The median over groups of neighbouring sequences of the batch, which is a multiple of the size of a group.

    Source [B, T, F], output [B / pool_size, T, F]. The lengths are the longest in each group.
    """

    layer_class = "batch_median_pooling"

    def __init__(self, pool_size: int = 1, **kwargs: Any) -> None:
        """
        :param pool_size: sequences in a group
        """
        super().__init__(**kwargs)
        self.pool_size = pool_size

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B / pool_size, T, F]"""
        if self.pool_size == 1:
            return source
        batch = source.get_batch_dim_tag()
        group = self.new_dim("group", self.pool_size, auto_generated=False)
        groups = batch.ceildiv_left(group) if batch.dimension else batch // self.pool_size
        source = source.copy_as_batch_major()
        dims = [groups, *(self._dim_of_groups(dim, batch, group, groups) for dim in source.dims[1:])]
        output = Tensor(self.name, dims=dims, dtype=source.dtype)
        if source.raw_tensor is not None:
            raw = _in_groups(source.raw_tensor, self.pool_size)
            ordered = tf.sort(raw, axis=1)
            low, high = (self.pool_size - 1) // 2, self.pool_size // 2
            output.raw_tensor = (ordered[:, low] + ordered[:, high]) / 2
        return output

    def _dim_of_groups(self, dim: Dim, batch: Dim, group: Dim, groups: Dim) -> Dim:
        lengths = dim.dyn_size_ext
        if lengths is None or batch not in lengths.dims:
            return dim
        new = self.new_dim(f"longest:{dim.name}", None, kind=dim.kind)
        longest = Tensor("lengths", dims=[groups], dtype=lengths.dtype)
        if lengths.raw_tensor is not None:
            longest.raw_tensor = tf.reduce_max(_in_groups(lengths.raw_tensor, self.pool_size), axis=1)
        new.dyn_size_ext = longest
        return new


def _in_groups(raw: tf.Tensor, size: int) -> tf.Tensor:
    return tf.reshape(raw, tf.concat([[-1, size], tf.shape(raw)[1:]], axis=0))
