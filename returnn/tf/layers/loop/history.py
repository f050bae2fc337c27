"""
All frames of a loop up to the current one, along a dim that grows from step to step.

Inside of the loop it has one entry in the first step, two in the second one, and so on. For all frames at once, the
entries of all steps are the same frames, and only the lengths differ: the dim has the lengths 1, 2, 3, ... over the dim
of the loop, so that each step sees its own past alone.

Where a mask leaves out frames (`masked_computation`), each sequence has seen another number of frames: the dim has
these lengths. In memory, there is a place for each step; a frame takes the first one that is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.step_state import GrowingInitial
from returnn.tf.layers.values.ranges import frame_numbers, number_of_step


@dataclass(frozen=True)
class NoFrames(GrowingInitial):
    """What there is before the first frame. After the loop, all frames are given to whom it concerns."""

    template: Tensor
    axis: Dim  # has size 0
    after_loop: Callable[[Tensor, Dim], None] | None = None  # function of the frames {..., T} and T

    def __call__(self) -> Tensor:
        """:return: [dims of template], without beam, as all hypotheses begin in the same way"""
        out = self.template.copy_template()
        for dim in [dim for dim in out.dims if dim.is_beam_dim()]:
            out = out.copy_template_excluding_axis(out.get_axis_from_description(dim))
        sizes = [0 if dim == self.axis else dim.get_dim_value() for dim in out.dims]
        out.raw_tensor = tf.zeros(sizes, dtype=out.dtype)
        return out


def with_past(
    layer: LayerBase,
    key: str,
    frame: Tensor,
    *,
    out_dim: Dim,
    after_loop: Callable[[Tensor, Dim], None] | None = None,
) -> Tensor:
    """
    Inside of a loop.

    :param layer: which keeps the frames, as part of its state
    :param key: of the state
    :param frame: {...}, of this step
    :param out_dim: the growing dim. It gets the number of frames up to this step
    :param after_loop: function of all frames, which is called after the loop
    :return: {..., out_dim}: all frames so far
    """
    if get_selected_backend() == "template":
        out_dim.dyn_size_ext = None  # those of another loop over the same dim, of which this one knows nothing
    if masks_around(layer):
        return _with_past_of_some(layer, key, frame, out_dim=out_dim)
    step = number_of_step(layer)
    before = layer.new_dim("frames before")
    before.dyn_size_ext = step
    out_dim.dyn_size_ext = step + 1
    template = frame.copy_template()._insert_dim(before, len(frame.dims))
    past = layer.previous_state(key, template, initial=NoFrames(template, before, after_loop, grown=out_dim))
    one = layer.new_dim("frame", 1, auto_generated=False)
    out, _ = rf.concat((past, before), (rf.expand_dim(frame, one), one), out_dim=out_dim, allow_broadcast=True)
    layer.new_state(key, rf.replace_dim(out, in_dim=out_dim, out_dim=before)[0])
    return out


def _with_past_of_some(layer: LayerBase, key: str, frame: Tensor, *, out_dim: Dim) -> Tensor:
    """See `with_past`, where a mask leaves out frames."""
    step, number = number_of_step(layer), frames_before(layer)
    frame = rf.expand_to(frame, number.dims)
    before, places = layer.new_dim("frames before"), layer.new_dim("places for frames")
    before.dyn_size_ext = step
    places.dyn_size_ext = step + 1
    out_dim.dyn_size_ext = number + 1
    template = frame.copy_template()._insert_dim(before, len(frame.dims))
    past = layer.previous_state(key, template, initial=NoFrames(template, before))
    one = layer.new_dim("frame", 1, auto_generated=False)
    frames, _ = rf.concat((past, before), (rf.expand_dim(frame, one), one), out_dim=places, allow_broadcast=True)
    is_place = rf.compare_bc(frame_numbers(places), "==", number)
    frames = rf.where(is_place, frame, frames, allow_broadcast_all_sources=True)
    layer.new_state(key, rf.replace_dim(frames, in_dim=places, out_dim=before)[0])
    out = rf.get_backend_by_tensor(frames).slice(frames, axis=places, start=0, end=out_dim, out_dim=out_dim)
    return out.copy_with_roles(feature_dim=frame.feature_dim)


def frames_before(layer: LayerBase) -> Tensor:
    """:return: int32: how many frames the layer has seen before this one; {B}, where a mask leaves out some"""
    masks = masks_around(layer)
    if not masks:
        return number_of_step(layer)
    dims = dict.fromkeys(dim for mask in masks for dim in mask.dims)
    number = layer.previous_state("number of frames", Tensor("number", list(dims), "int32"))
    layer.new_state("number of frames", number + 1)  # where the mask is false, it stays what it was
    return number


def masks_around(layer: LayerBase) -> list[Tensor]:
    """:return: of each `masked_computation` around, as far as the loop: whether it computes this frame"""
    masks = []
    for network in reversed(layer.network.get_network_hierarchy()):
        if network.inside_rec_time_dim is not None or network.parent_layer is None:
            break
        mask = network.parent_layer.mask_of_frame
        masks += [] if mask is None else [mask]
    return masks


def all_with_past(frames: Tensor, *, axis: Dim, out_dim: Dim) -> Tensor:
    """
    The same for all frames at once.

    :param frames: {..., axis}
    :param axis: of the loop
    :param out_dim: the growing dim. It gets the lengths [axis]
    :return: {..., out_dim}, without `axis`
    """
    out_dim.dyn_size_ext = lengths_in_steps(axis)
    return rf.replace_dim(frames, in_dim=axis, out_dim=out_dim)[0]


def lengths_in_steps(axis: Dim) -> Tensor:
    """:return: [axis], int32: how many frames each step of the loop over this dim sees"""
    return frame_numbers(axis) + 1
