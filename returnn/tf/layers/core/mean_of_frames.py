"""The mean over all frames of loops of something that is computed frame by frame, for what changes once in a step."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_rec import LayerRec

_NUMBER = "number of frames of "


def loops_moved_out_of(layer: LayerRec) -> set[Dim]:
    """:return: dims of the loops all of whose frames the layer is computed for at once"""
    dims = (network.over_rec_time_dim for network in layer.network.get_network_hierarchy())
    return {dim for dim in dims if dim is not None}


def keep_for_mean(layer: LayerRec, key: str, value: Tensor, *, source: Tensor) -> None:
    """
    Inside of a loop, also on templates.

    :param layer: gets the total by `after_loop`
    :param key: says which value
    :param value: [...] of all sequences; or [B, ...] of each one, also with dims of loops
    :param source: what it is of. Frames of loops inside, all of which are computed at once, count like those of this
        one
    """
    batch, *_ = layer.network.step.batch_dims()
    loops = [dim for dim in source.dims if dim in loops_moved_out_of(layer)]
    number = rf.ones([batch, *loops], dtype="float32")
    number = rf.reduce_sum(number, axis=loops) if loops else number
    hypotheses = [dim for dim in number.dims if dim != batch]  # as many frames as the longest one has
    number = rf.reduce_max(number, axis=hypotheses) if hypotheses else number
    if batch in value.dims:
        own = [dim for dim in loops if dim in value.dims]
        total = rf.reduce_sum(value, axis=own) if own else value
    else:
        total = rf.combine_bc(value, "*", rf.cast(number, value.dtype))
    dims = [batch, *(dim for dim in value.dims if dim != batch and dim not in loops)]
    layer.keep_for_after_loop(key, rf.expand_to(total, dims).copy_transpose(dims), of_parameters=True)
    layer.keep_for_after_loop(f"{_NUMBER}{key}", number, of_parameters=True)


def mean_of_frames(totals: Mapping[str, Tensor], key: str, variable: tf.Variable) -> tf.Tensor:
    """
    :param totals: what `after_loop` got
    :param key: says which value
    :param variable: of the same shape, but for axes of size 1
    :return: raw, in this shape: the mean over all frames of all sequences; the value of the variable if there are none
    """
    total, number = (rf.reduce_sum(totals[name], axis=totals[name].dims[0]) for name in (key, f"{_NUMBER}{key}"))
    mean = tf.reshape(total.raw_tensor, variable.shape) / tf.cast(
        tf.maximum(number.raw_tensor, 1.0), total.raw_tensor.dtype
    )
    return tf.where(number.raw_tensor > 0, mean, variable)
