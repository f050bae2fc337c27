"""Parts of the sequences of a batch, as feed dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import tensorflow as tf

from returnn.tensor import Tensor, batch_dim
from returnn.tf.network.extern_data import ExternData


def seqs_of_feed(feed: Mapping[Any, Any], extern_data: ExternData, seqs: slice) -> dict[Any, Any]:
    """
    :param feed: of a batch, by placeholder; its graph is the current one
    :param extern_data: with these placeholders
    :param seqs: some of its sequences
    :return: the same for these alone, without padding that they do not need
    """
    part = dict(feed)
    for data in extern_data.data.values():
        for lengths in _lengths(data):
            if lengths is not None and lengths in feed:
                part[lengths] = feed[lengths][seqs]
        if data.raw_tensor is not None and data.raw_tensor in feed and data.batch_dim_axis is not None:
            part[data.raw_tensor] = _seqs_of_array(data, feed, seqs)
            if batch_dim.dyn_size in feed:
                part[batch_dim.dyn_size] = part[data.raw_tensor].shape[data.batch_dim_axis]
    return part


def _seqs_of_array(data: Tensor, feed: Mapping[Any, Any], seqs: slice) -> numpy.ndarray:
    array = feed[data.raw_tensor]
    cut = [slice(None)] * array.ndim
    for axis, lengths in enumerate(_lengths(data)):
        if axis == data.batch_dim_axis:
            cut[axis] = seqs
        elif lengths is not None and lengths in feed:
            cut[axis] = slice(max(int(numpy.max(feed[lengths][seqs], initial=0)), 1))
    return numpy.asarray(array[tuple(cut)])


def _lengths(data: Tensor) -> list[Any]:
    """:return: for each axis, where the lengths of its frames come from; None if they are not fed"""
    found = [None if dim.is_batch_dim() or dim.size is not None else dim.dyn_size for dim in data.dims]
    return [lengths if isinstance(lengths, tf.Tensor) else None for lengths in found]
