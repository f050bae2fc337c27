"""What a step of a model on templates compares and sums, as far as it can be wrong although all dims fit together."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from returnn.engine.frontend.unaligned import HOW_TO_GO_ON
from returnn.engine.report.compared_lengths import ComparedDims, IfTooLong, blank_among_labels, data_keys_of
from returnn.frontend._watch import IS_FINITE
from returnn.frontend._watched_weights import watched_weights
from returnn.frontend.loss import CtcOperands, watched_cross_entropies, watched_ctc_losses
from returnn.tensor import Dim, Tensor
from returnn.util.python.user_code_errors import innermost_of_user


@dataclass
class StepFindings:
    """Of one step."""

    compared: list[ComparedDims] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    predicted: set[str] = field(default_factory=set)  # data keys of labels, as they are, by cross entropy
    mixes_frames: bool = False  # so each frame sees the others, also the labels there


@contextmanager
def watched_step(templates: Mapping[str, Tensor]) -> Iterator[StepFindings]:
    """
    :param templates: of the data, by key
    :return: what is found in the `with` block, which is complete behind it
    """
    found = StepFindings()

    def on_other_sum(dim: Dim, reduce: Sequence[Dim]) -> None:
        place = innermost_of_user((frame.filename, frame.lineno, frame.function) for frame in inspect.stack(0))
        where = f"In {place[0]}, line {place[1]}, {place[2]}: " if place is not None else ""
        found.warnings.append(
            f"{where}sums over {', '.join(map(str, reduce))}, but the weights are a softmax over {dim}, so the ones in "
            "a sum are not 1 together. One of both has another dim than it should."
        )

    with (
        watched_weights(on_other_sum),
        watched_ctc_losses() as ctc_losses,
        watched_cross_entropies() as entropies,
        IS_FINITE.look() as asked,
    ):
        yield found
    if_infinite: IfTooLong = "zero" if asked else "error"  # most likely, the step leaves out what is infinite
    wrong_axes = [text for operands in entropies for text in _over_other_axis(*operands)]
    found.warnings += wrong_axes
    found.mixes_frames = bool(wrong_axes)
    found.predicted.update(key for _, target, _ in entropies for key in _data_of(target, templates))
    found.compared += (dims for operands in ctc_losses for dims in _compared_by_ctc(operands, templates, if_infinite))


def _over_other_axis(estimated: Tensor, target: Tensor, axis: Dim) -> Iterator[str]:
    """:return: a warning if a cross entropy takes frames for the classes"""
    classes = target.feature_dim
    if classes is not None and classes != axis and classes in estimated.dims and axis.is_dynamic():
        yield (
            f"rf.cross_entropy: its axis is {axis.name!r}, but {target} is a distribution over {classes.name!r}, "
            f"so each frame is compared with the others, and not each label. For the labels, it is axis={classes.name}."
        )


def _data_of(target: Tensor, templates: Mapping[str, Tensor]) -> Iterator[str]:
    """:return: data keys of the labels of the target, whose frames are its own: none was added or cut off"""
    for key, template in templates.items():
        are_labels = target.sparse and target.sparse_dim == template.sparse_dim
        if are_labels and set(target.dims) == set(template.dims):
            yield key


def _compared_by_ctc(
    operands: CtcOperands, templates: Mapping[str, Tensor], if_infinite: IfTooLong
) -> Iterator[ComparedDims]:
    is_loss = operands.function == "ctc_loss"
    own, frames = operands.targets_spatial_dim, operands.input_spatial_dim
    labels = operands.targets.sparse_dim
    blank = blank_among_labels(operands.blank_index, operands.classes, labels)
    for key in data_keys_of(own, templates):
        yield ComparedDims(
            f"rf.{operands.function}",
            key,
            own,
            frames,
            "input",
            needs_blanks=operands.label_loop,
            if_too_long=if_infinite if is_loss else "no alignment",
            how_to_go_on=HOW_TO_GO_ON if is_loss and if_infinite == "error" else "",
            blank_label=blank if labels == templates[key].sparse_dim else None,
        )
