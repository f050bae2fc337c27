"""
Losses that come about inside of a layer in each frame of a loop, where nobody outside sees the frames of the layer: in
the branch of a condition, or in a loop inside of the loop.

Each frame has the sum of a loss for each sequence. Behind the loop, those of all frames up to the end of the sequence
are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_targets import LayerTargets
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted

PARTS = ("value", "error", "frames")  # of a loss: its sum, that of its error, and the number of frames


def num_losses(desc: Any) -> int:
    """
    :param desc: options of a layer, or of several layers by name
    :return: how many losses there are at most, with those inside of the layers
    """
    if not isinstance(desc, Mapping):
        return 0
    return (desc.get("loss") is not None) + sum(map(num_losses, desc.values()))


def check_number(layer: LayerTargets, losses: Sequence[LossHolder], expected: int) -> None:
    """
    :param layer: with these losses
    :param losses: all of them
    :param expected: how many its options say
    :raises ConfigError: if there are more
    """
    if len(losses) > expected:
        raise ConfigError(
            f"{layer.where()}: it has {counted(len(losses), 'loss')}, its options only say {expected}.\n"
            "  Inside of a 'cond' or of a loop in a loop, each loss has to stand in the net dict."
        )


def templates_of_frame(num: int, batch: Dim) -> list[dict[str, Tensor]]:
    """
    :param num: of losses
    :param batch: the batch dim
    :return: [batch] each: what `values_of_frame` looks like
    """
    return [{part: Tensor(part, [batch], "float32") for part in PARTS} for _ in range(num)]


class LossOfFrame(LossHolder):
    """A loss of a frame of a loop, of which the sums for each sequence are known already."""

    def __init__(self, layer: LayerTargets, inner: LossHolder, parts: Mapping[str, Tensor]) -> None:
        """
        :param layer: which the loss is inside of
        :param inner: the loss as it is inside
        :param parts: [batch] each, see `values_of_frame`
        """
        has_value, has_error = inner.get_loss_value() is not None, inner.get_error_value() is not None
        super().__init__(
            name=inner.name,
            loss=inner.loss,
            layer_output=layer.output,
            layer=layer,
            network=layer.network,
            loss_value=parts["value"].raw_tensor if has_value else None,
            error_value=parts["error"].raw_tensor if has_error else None,
            only_on_eval=inner.get_only_on_eval(),
        )
        self.parts = parts

    def with_reduce(self, reduce_func: Callable[[Any], Any]) -> LossHolder:
        """:return: itself: it is summed up already"""
        return self

    def num_frames_of_sequences(self, batch: Dim) -> Any:
        """:return: raw (B,)"""
        return self.parts["frames"].copy_compatible_to_dims_raw([batch])


def losses_of_sequences(losses: Sequence[LossHolder]) -> list[LossHolder]:
    """:return: the same losses, whose value is the sum of each sequence: raw (B,)"""
    return [holder.with_reduce(holder.loss.sum_of_sequences) for holder in losses]


def values_of_frame(losses: Sequence[LossHolder], num: int, batch: Dim) -> list[dict[str, Tensor]]:
    """
    :param losses: in a frame of a loop, see `losses_of_sequences`
    :param num: of losses there can be
    :param batch: the batch dim
    :return: [batch] each: the parts of each loss; zeros for those that there are not
    """
    found = [_parts(loss, batch) for loss in losses]
    zeros = {part: rf.zeros([batch], dtype="float32") for part in PARTS}
    return [*found, *[zeros] * (num - len(found))]


def _parts(holder: LossHolder, batch: Dim) -> dict[str, Tensor]:
    value, error = holder.get_loss_value(), holder.get_error_value()
    return {
        "value": _of_sequences(value, batch),
        "error": _of_sequences(error, batch),
        "frames": _of_sequences(holder.num_frames_of_sequences(batch), batch),
    }


def _of_sequences(raw: Any, batch: Dim) -> Tensor:
    """
    :param raw: one value for each sequence; or a scalar, which all of them have an equal part in; or None for 0
    :return: [batch]
    """
    raw = tf.cast(0.0 if raw is None else raw, tf.float32)
    num = batch.get_dim_value_tensor().raw_tensor
    if raw.shape.rank == 0:
        raw = tf.fill([num], raw / tf.cast(tf.maximum(num, 1), tf.float32))
    return Tensor("loss", [batch], "float32", raw_tensor=raw)


def sum_of_sequences(parts: Mapping[str, Tensor]) -> dict[str, Any]:
    """
    :param parts: [batch] each, see `values_of_frame`
    :return: raw scalars: "value", "error", "norm_factor"
    """
    sums = {key: rf.reduce_sum(x, axis=x.dims, use_mask=False).raw_tensor for key, x in parts.items()}
    norm_factor = tf.math.divide_no_nan(1.0, sums["frames"])
    return {"value": sums["value"], "error": sums["error"], "norm_factor": norm_factor}


def behind(layer: LayerTargets, inner: LossHolder, values: Mapping[str, Any]) -> LossHolder:
    """
    :param layer: which the loss is inside of
    :param inner: the loss as it is inside
    :param values: raw scalars: "value", "error", "norm_factor"
    :return: the loss with these
    """
    has_value, has_error = inner.get_loss_value() is not None, inner.get_error_value() is not None
    return LossHolder(
        name=inner.name,
        loss=inner.loss,
        layer_output=layer.output,
        layer=layer,
        network=layer.network,
        loss_value=values["value"] if has_value else None,
        error_value=values["error"] if has_error else None,
        norm_factor=values["norm_factor"],
        only_on_eval=inner.get_only_on_eval(),
    )
