"""The mean over all frames of a loop of something that is computed frame by frame, for what changes once in a step."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

import returnn.frontend as rf
from returnn.frontend.control_flow_ctx import get_current_control_flow_ctx
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_rec import LayerRec
from returnn.util.errors import ConfigError

NUM_FRAMES = "number of frames"


def keep_for_mean(layer: LayerRec, key: str, value: Tensor) -> None:
    """
    Inside of a loop, also on templates.

    :param layer: gets all frames by `after_loop`
    :param key: says which value
    :param value: [B, ...] of each sequence, or [...] of all of them
    """
    batch = layer.batch_of_frame()
    assert batch is not None
    if get_current_control_flow_ctx() is not None:
        raise ConfigError(_no_running_mean(layer))
    dims = [batch, *(dim for dim in value.dims if dim != batch)]
    layer.keep_for_after_loop(key, rf.expand_to(value, dims).copy_transpose(dims))
    layer.keep_for_after_loop(NUM_FRAMES, rf.ones([batch], dtype="float32"))


def means_of_frames(layer: LayerRec, frames: Mapping[str, Tensor], time_dim: Dim) -> dict[str, Tensor]:
    """
    :param layer: the same
    :param frames: {time_dim, B, ...} each, by key, among what `after_loop` got
    :param time_dim: of the loop
    :return: [...] each, by key: the mean over all frames of all sequences
    :raises ConfigError: if the loop is in another one, or in a condition
    """
    values = {key: x for key, x in frames.items() if key != NUM_FRAMES}
    if values and tf.compat.v1.get_default_graph().building_function:
        raise ConfigError(_no_running_mean(layer))
    return {key: _mean(x, frames[NUM_FRAMES], time_dim) for key, x in values.items()}


def check_not_in_loop(layer: LayerRec) -> None:
    """:raises ConfigError: if it is in a loop, though it is computed for all frames of another one at once"""
    if layer.network.step.is_inside():
        raise ConfigError(_no_running_mean(layer))


def _no_running_mean(layer: LayerRec) -> str:
    return (
        f"{layer.where()}: its running mean cannot be trained inside of a loop together with a condition or another\n"
        "  loop, as it changes once in each step."
    )


def _mean(x: Tensor, count: Tensor, time_dim: Dim) -> Tensor:
    axes = [time_dim, *(dim for dim in count.dims if dim != time_dim)]
    number, total = _sum(count, axes), _sum(rf.cast(x, count.dtype), axes)
    return rf.cast(total / rf.maximum(number, 1.0), x.dtype)


def _sum(x: Tensor, axes: list[Dim]) -> Tensor:
    out = rf.reduce_sum(x, axis=axes)
    hypotheses = [dim for dim in out.dims if dim not in x.dims]  # each has its own number of frames
    return rf.reduce_sum(out, axis=hypotheses) if hypotheses else out
