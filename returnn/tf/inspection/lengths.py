"""
Whether targets are as long as what losses compare them with, for the sequences of a data sample.

Data of two keys have time dims of their own, so that alignments out of other files, or of another frame rate, fit as
far as dims say. A run finds the sequence which is too short or too long when it comes to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy

from returnn.datasets.core.dataset_seq import Array
from returnn.engine.report.data_sample import DataSample
from returnn.tensor import Dim, Tensor, dim_math
from returnn.tf.inspection.found_layers import FoundLayer
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.losses.sequence_losses import CtcLoss, SequenceLoss
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted


@dataclass(frozen=True)
class ComparedDims:
    """The dim of a target, and that of the frames which it is compared with."""

    where: str  # as an error begins
    target: str
    own: Dim
    frames: Dim
    frames_of: str  # what has the frames, such as "output"
    needs_blanks: bool | None = None  # with CTC: whether there has to be one between two of the same. It may be shorter

    def wrong_lengths(self, sample: DataSample, lengths_of: Mapping[Dim, Array]) -> Iterator[str]:
        """
        :param sample: of a data set
        :param lengths_of: by dim of the data, in each sequence of the sample
        :return: an error, if a sequence does not fit
        """
        labels, frames = _evaluated(self.own, lengths_of), _evaluated(self.frames, lengths_of)
        if labels is None or frames is None or self.target not in sample.shapes:
            return
        needed = labels + sample.num_repeats[self.target] if self.needs_blanks else labels
        is_ctc = self.needs_blanks is not None
        wrong = numpy.flatnonzero(needed > frames if is_ctc else needed != frames)
        if not wrong.size:
            return
        i = wrong[0]
        rule = "needs at least as many frames" if is_ctc else f"needs as many labels as the {self.frames_of} has frames"
        blanks = f", which need {needed[i]} with a blank between two of the same" if needed[i] != labels[i] else ""
        yield (
            f"{self.where}: the target {self.target!r} {rule}. In {sample.seqs(wrong)}: "
            f"{counted(int(labels[i]), 'label')}{blanks}; {counted(int(frames[i]), 'frame')}."
        )


def compared_dims(found: FoundLayer) -> Iterator[ComparedDims]:
    """
    :param found: as template
    :return: what has to be equally long: target and output of a loss, target and frames of a loop
    :raises ConfigError: if a loss over sequences gets an output without frames
    """
    layer = found.layer
    if isinstance(layer.loss, Loss) and type(layer.loss).__module__.startswith("returnn."):
        yield from _of_loss(layer, layer.loss)
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
        if isinstance(loss, CtcLoss) and loss.fails_at_long_targets():
            yield ComparedDims(loss.where(), key, own, frames, "output", needs_blanks=loss.has_label_loop())
        return
    own_dims = [dim for dim in _dims_of_sequences(target) if dim not in layer.output.dims]
    frame_dims = [dim for dim in _dims_of_sequences(layer.output) if dim not in target.dims]
    if not frame_dims and loop_dim is not None:
        frame_dims = [loop_dim]
    if len(own_dims) == len(frame_dims) == 1:
        yield ComparedDims(loss.where(), key, own_dims[0], frame_dims[0], "output")


def _dims_of_sequences(x: Tensor) -> list[Dim]:
    return [dim for dim in x.dims if dim.is_dynamic_seq_length() and not dim.is_batch_dim()]


def _time_dim(loss: SequenceLoss, x: Tensor, loop_dim: Dim | None) -> Dim:
    """:raises ConfigError: if there is none, and no loop"""
    return loop_dim if loop_dim is not None and not _dims_of_sequences(x) else loss.time_dim_of(x)


def end_label_warnings(
    compared: Sequence[ComparedDims], samples: Iterable[DataSample], templates: Mapping[str, Tensor]
) -> Iterator[str]:
    """
    :param compared: of a network
    :param samples: of its data sets
    :param templates: of their data, by key
    :return: targets of CTC which end with a label that is no part of the text
    """
    for key in sorted({dims.target for dims in compared if dims.needs_blanks is not None}):
        vocab = templates[key].vocab if key in templates else None
        last = {label for sample in samples for label in sample.last_labels.get(key, ())}
        if vocab is not None and len(last) == 1 and vocab.id_to_label(*last, None) == vocab.end_label:
            yield (
                f"the target {key!r} of a loss 'ctc' always ends with {vocab.end_label!r}, which is no part of the "
                "text. CTC needs no label of the end: leave out 'seq_postfix' of its vocabulary."
            )


def wrong_lengths(compared: Sequence[ComparedDims], sample: DataSample, templates: Mapping[str, Tensor]) -> list[str]:
    """
    :param compared: of a network
    :param sample: of a data set
    :param templates: of its data, by key
    :return: errors: data of one time dim with other lengths, and targets that do not fit to what they are compared with
    """
    errors = list(sample.errors_of_common_dims(templates))
    lengths_of = {dim: lengths for _, dim, lengths in sample.lengths(templates)}
    for dims in () if errors else compared:
        errors += dims.wrong_lengths(sample, lengths_of)
    return errors


def _evaluated(dim: Dim, lengths_of: Mapping[Dim, Array]) -> Array | None:
    """:return: its length in each sequence; None if it depends on more than lengths of the data"""
    if dim in lengths_of:
        return lengths_of[dim]
    if dim.length_rule is not None or any(atom not in lengths_of for atom in dim.expression.atoms()):
        return None
    return numpy.maximum(dim_math.evaluate(dim.expression, lengths_of.__getitem__), 0)
