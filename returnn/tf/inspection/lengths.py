"""Which targets have to be as long as what layers compare them with."""

from __future__ import annotations

from collections.abc import Iterator

from returnn.engine.report.compared_lengths import ComparedDims, IfTooLong, blank_among_labels, data_keys_of
from returnn.tensor import Dim, Tensor
from returnn.tf.inspection.found_layers import FoundLayer
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.losses.loss_layers import CtcLossLayer
from returnn.tf.layers.losses.sequence_losses import CtcLoss, SequenceLoss
from returnn.tf.layers.segmental.alignment import FastBaumWelchLayer, ForcedAlignmentLayer
from returnn.util.errors import ConfigError


def compared_dims(found: FoundLayer) -> Iterator[ComparedDims]:
    """
    :param found: as template
    :return: what has to be equally long: target and output of a loss, target and frames of a loop
    :raises ConfigError: if a loss over sequences gets an output without frames
    """
    layer = found.layer
    if isinstance(layer.loss, Loss) and type(layer.loss).__module__.startswith("returnn."):
        yield from _of_loss(layer, layer.loss)
    if isinstance(layer, CtcLossLayer):
        logits, targets = layer.logits.output, layer.targets.output  # type: ignore[union-attr]
        blank = _blank_label(layer, logits.feature_dim, targets)
        yield from _of_labels(layer, logits, targets, layer.label_loop, "zero", blank)
    if isinstance(layer, (ForcedAlignmentLayer, FastBaumWelchLayer)) and layer.aligned_labels() is not None:
        labels = layer.aligned_labels()
        blank = _blank_label(layer, layer.output.feature_dim or layer.output.sparse_dim, labels)
        yield from _of_labels(layer, layer.output, labels, layer.has_label_loop(), "no alignment", blank)
    if found.loop is not None:
        root, inputs = layer.network.get_root_network(), found.loop.inputs
        for key in sorted(inputs.targets_of_frames & root.used_data_keys):
            own = inputs.own_dim_of_target(key, root.extern_data.data[key]) if root.extern_data.has_data(key) else None
            if own is not None:
                yield ComparedDims(layer.where(), key, own, inputs.time_dim, "source" if layer.sources else "loop")


def _of_loss(layer: LayerBase, loss: Loss) -> Iterator[ComparedDims]:
    target, key = layer.get_target_value(), layer.target
    if target is None or not isinstance(key, str):
        return
    loop_dim = layer.network.get_inside_rec_time_dim(inside_loop=False)
    loss.layer = layer  # for messages
    if isinstance(loss, SequenceLoss):
        frames, own = (_time_dim(loss, x, loop_dim) for x in (layer.output, target))
        if isinstance(loss, CtcLoss) and own == loop_dim:
            raise ConfigError(
                f"{loss.where()}: in a loop, the target {key!r} is a label for each frame, but CTC needs fewer labels "
                "than frames.\n  Put a layer with this loss behind the loop, 'from' the output of the loop."
            )
        if isinstance(loss, CtcLoss):
            has_loop, if_too_long = loss.has_label_loop(), loss.if_too_long()
            yield ComparedDims(
                loss.where(),
                key,
                own,
                frames,
                "output",
                needs_blanks=has_loop,
                if_too_long=if_too_long,
                blank_label=_blank_label(loss, layer.output.feature_dim, target),
            )
        return
    own_dims = [dim for dim in _dims_of_sequences(target) if dim not in layer.output.dims]
    frame_dims = [dim for dim in _dims_of_sequences(layer.output) if dim not in target.dims]
    if not frame_dims and loop_dim is not None:
        frame_dims = [loop_dim]
    if len(own_dims) == len(frame_dims) == 1:
        yield ComparedDims(loss.where(), key, own_dims[0], frame_dims[0], "output")


def _of_labels(
    layer: LayerBase, scores: Tensor, labels: Tensor, label_loop: bool, if_too_long: IfTooLong, blank: int | None
) -> Iterator[ComparedDims]:
    if not (scores.have_time_axis() and labels.have_time_axis()):
        return
    own, frames = labels.get_time_dim_tag(), scores.get_time_dim_tag()
    templates = layer.network.get_root_network().extern_data.data
    for key in data_keys_of(own, templates):
        yield ComparedDims(
            layer.where(),
            key,
            own,
            frames,
            "input",
            needs_blanks=label_loop,
            if_too_long=if_too_long,
            blank_label=blank if labels.sparse_dim == templates[key].sparse_dim else None,
        )


def _blank_label(
    asked: CtcLoss | CtcLossLayer | ForcedAlignmentLayer | FastBaumWelchLayer, classes: Dim | None, labels: Tensor
) -> int | None:
    if classes is None or classes.size is None:
        return None
    return blank_among_labels(asked.blank_of(classes), classes, labels.sparse_dim)


def _dims_of_sequences(x: Tensor) -> list[Dim]:
    return [dim for dim in x.dims if dim.is_dynamic_seq_length() and not dim.is_batch_dim()]


def _time_dim(loss: SequenceLoss, x: Tensor, loop_dim: Dim | None) -> Dim:
    """:raises ConfigError: if there is none, and no loop"""
    return loop_dim if loop_dim is not None and not _dims_of_sequences(x) else loss.time_dim_of(x)
