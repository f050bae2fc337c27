"""
All frames of a loop up to the current one, along a dim that grows from step to step.

Inside of the loop it has one entry in the first step, two in the second one, and so on. For all frames at once, the
entries of all steps are the same frames, and only the lengths differ: the dim has the lengths 1, 2, 3, ... over the dim
of the loop, so that each step sees its own past alone.
"""

from __future__ import annotations

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.layer_base import LayerBase
from returnn.tf.layers.ranges import frame_numbers


def with_past(layer: LayerBase, key: str, frame: Tensor, *, out_dim: Dim) -> Tensor:
    """
    Inside of a loop.

    :param layer: which keeps the frames, as part of its state
    :param key: of the state
    :param frame: {...}, of this step
    :param out_dim: the growing dim. It gets the number of frames up to this step
    :return: {..., out_dim}: all frames so far
    """
    step = number_of_step(layer)
    before = layer.new_dim("frames before")
    before.dyn_size_ext = step
    out_dim.dyn_size_ext = step + 1
    template = frame.copy_template()._insert_dim(before, len(frame.dims))
    past = layer.previous_state(key, template, initial=lambda: _no_frames(template, before))
    one = layer.new_dim("frame", 1, auto_generated=False)
    out, _ = rf.concat((past, before), (rf.expand_dim(frame, one), one), out_dim=out_dim, allow_broadcast=True)
    layer.new_state(key, rf.replace_dim(out, in_dim=out_dim, out_dim=before)[0])
    return out


def all_with_past(frames: Tensor, *, axis: Dim, out_dim: Dim) -> Tensor:
    """
    The same for all frames at once.

    :param frames: {..., axis}
    :param axis: of the loop
    :param out_dim: the growing dim. It gets the lengths [axis]
    :return: {..., out_dim}, without `axis`
    """
    out_dim.dyn_size_ext = frame_numbers(axis) + 1
    return rf.replace_dim(frames, in_dim=axis, out_dim=out_dim)[0]


def number_of_step(layer: LayerBase) -> Tensor:
    """:return: int32, scalar: number of the current frame of the loop, to compute with"""
    step = layer.network.get_rec_step_info().output.copy()
    step.sparse_dim = None
    return step


def _no_frames(template: Tensor, axis: Dim) -> Tensor:
    out = template.copy_template()
    sizes = [0 if dim == axis else dim.get_dim_value() for dim in template.dims]
    out.raw_tensor = tf.zeros(sizes, dtype=template.dtype)
    return out
