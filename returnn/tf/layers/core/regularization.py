"""
Regularization of layers: of parameters (`L2`), and of outputs (`darc1`, `spatial_smoothing`) over all frames.

In a loop, a layer keeps what a frame adds to it, also inside of conditions and of loops in the loop. Behind the
outermost loop, it is made of the sums. Parameters count once, if the layer is computed in some frame. Only where it may
not be computed, as in a condition, something has to be kept for that.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_params import output_of_darc1
from returnn.tf.layers.core.floors.layer_rec import LayerRec
from returnn.tf.layers.core.mean_of_frames import loops_moved_out_of
from returnn.tf.util.parameters.regularization import spatial_smoothing_per_frame

REGULARIZATION = ("L2", "darc1", "spatial_smoothing")  # options


def keep_parts_of_frame(layer: LayerRec) -> None:
    """
    Keeps what a frame adds to the regularization of the output, and whether there is a frame at all, where it is asked
    whether the parameters count. Also on templates.

    :param layer: inside of a loop
    """
    network = layer.network
    if not (network.eval_flag or network.is_training_objective):
        return
    batch, *_ = network.step.batch_dims()
    if layer.L2 and _may_be_left_out(layer):
        layer.keep_for_after_loop("L2", rf.ones([batch], dtype="float32"))
    if layer.spatial_smoothing:
        layer.keep_for_after_loop("spatial_smoothing", _of_sequences(_smoothing(layer.output), [batch]))
    if layer.darc1:
        x, loops = output_of_darc1(layer), loops_moved_out_of(layer)
        entries = [dim for dim in x.dims if dim.size is not None and dim not in loops and not dim.is_batch_dim()]
        layer.keep_for_after_loop("darc1", _of_sequences(rf.abs(x), [batch, *entries]))


def is_counted_by_frames(layer: LayerRec) -> bool:
    """:return: whether the parameters of the layer only count if it is computed in some frame"""
    return "L2" in layer.totals_of_frames


def constraint_of_totals(layer: LayerRec) -> Any:
    """
    :param layer: which was inside of a loop
    :return: raw scalar, of all frames
    """
    totals, constraint = layer.totals_of_frames, 0
    if "L2" in totals:
        is_computed = tf.reduce_max(totals["L2"].raw_tensor) > 0
        constraint += tf.where(is_computed, layer.L2 * layer.get_params_l2_norm(), 0.0)
    if "spatial_smoothing" in totals:
        constraint += layer.spatial_smoothing * tf.reduce_sum(totals["spatial_smoothing"].raw_tensor)
    if "darc1" in totals:
        x = totals["darc1"]
        constraint += layer.darc1 * tf.reduce_max(rf.reduce_sum(x, axis=x.dims[0]).raw_tensor)
    return constraint


def _may_be_left_out(layer: LayerRec) -> bool:
    """:return: whether there is a condition or mask around, in one of the loops around"""
    frame = layer.network.step.innermost_frame()
    while frame is not None:
        if frame.has_losses_taken(frame.path_of(layer.get_absolute_name())):
            return True
        layer = frame.loop
        frame = layer.network.step.innermost_frame()
    return False


def _smoothing(x: Tensor) -> Tensor:
    """:return: energy of each frame"""
    x = x.copy_with_feature_last()
    raw = None if x.raw_tensor is None else spatial_smoothing_per_frame(x.raw_tensor)
    return Tensor("energy", x.dims[:-1], x.dtype, raw_tensor=raw)


def _of_sequences(x: Tensor, dims: list[Dim]) -> Tensor:
    """
    :param x: {...}
    :param dims: batch, and others
    :return: sum over all valid frames of each sequence. What does not belong to a sequence is divided among all
    """
    others = [dim for dim in x.dims if dim not in dims]
    total = rf.reduce_sum(x, axis=others) if others else x
    if dims[0] not in total.dims:
        total = total / rf.cast(rf.maximum(dims[0].get_dim_value_tensor(), 1), total.dtype)
    return rf.cast(rf.expand_to(total, dims).copy_transpose(dims), "float32")
