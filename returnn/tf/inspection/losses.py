"""Whether losses fit to the outputs and targets that they compare, as far as templates say."""

from __future__ import annotations

from collections.abc import Sequence

import returnn.frontend as rf
from returnn.tf.inspection.found_layers import FoundLayer
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.losses.frame_losses import INPUT_TYPES, CrossEntropyLoss
from returnn.tf.layers.losses.sequence_losses import SequenceLoss
from returnn.tf.layers.options.input_type import wrong_input_type
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted


def check_loss(layer: LayerBase) -> None:
    """
    :param layer: as template
    :raises UserError: if the output and the target of the layer do not fit to each other
    """
    loss = layer.loss
    if not isinstance(loss, Loss) or not type(loss).__module__.startswith("returnn."):
        return  # code of a user works on values
    with rf.backend_ctx("template"), layer.network.construction.compute_scope(layer, suffix="loss"):
        if loss.recurrent:  # works on values, too
            _check_dims_of_sequences(loss, layer)
            return
        loss.init_by_layer(layer)
        _check_sizes(loss)
        if isinstance(loss, CrossEntropyLoss) and not layer.warning:
            wrong = wrong_input_type(layer, loss.input_type, INPUT_TYPES)
            layer.warning = f"{loss.where()}: {wrong}" if wrong else None
        if type(loss).value_per_frame is not Loss.value_per_frame:
            loss.value_per_frame()


def _check_dims_of_sequences(loss: Loss, layer: LayerBase) -> None:
    if layer.network.get_inside_rec_time_dim(inside_loop=False) is not None:
        return  # the frames are those of the loop, see `compared_dims`
    if isinstance(loss, SequenceLoss) and (target := layer.get_target_value()) is not None:
        loss.layer = layer
        loss.check_dims(layer.output, target)


def may_have_loss(layers: Sequence[FoundLayer]) -> bool:
    """:return: whether something can be trained: a layer has a loss, or a constraint, or is of a user's class"""
    return any(
        found.layer.loss is not None
        or found.class_of_user
        or not type(found.layer).__module__.startswith("returnn.")
        or any(getattr(found.layer, name, None) for name in ("L2", "darc1", "spatial_smoothing"))
        or type(found.layer).get_losses.__func__ is not LayerBase.get_losses.__func__
        for found in layers
    )


def _check_sizes(loss: Loss) -> None:
    output, target = loss.output.feature_dim, None if loss.target is None else loss.target.sparse_dim
    if output is None or target is None or not isinstance(loss, CrossEntropyLoss):
        return
    if None not in (output.size, target.size) and output.size != target.size:
        key = loss.layer.target if loss.layer is not None else None
        raise ConfigError(
            f"{loss.where()}: the output has {counted(output.size, 'feature')}, the target {key!r} "
            f"{counted(target.size, 'label')}.\n"
            "  Without 'n_out', a 'softmax' layer takes the number of labels of its target."
        )
