"""
Whether targets are as long as what losses compare them with, for the sequences of a data sample.

Data of two keys have time dims of their own, so that alignments out of other files, or of another frame rate, fit as
far as dims say. A run finds the sequence which is too short or too long when it comes to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy

from returnn.datasets.core.dataset_seq import Array
from returnn.engine.report.data_sample import DataSample
from returnn.tensor import Dim, Tensor, dim_math
from returnn.util.texts.counted import counted

IfTooLong = Literal["error", "zero", "cut", "no alignment"]
_CONSEQUENCES = {
    "zero": " Where there is no alignment, the loss is 0: the model does not learn from it, and the score is too good.",
    "no alignment": " There the output is no alignment, and its score is -inf: leave these sequences out.",
}


@dataclass(frozen=True)
class ComparedDims:
    """The dim of a target, and that of the frames which it is compared with."""

    where: str  # as an error begins
    target: str
    own: Dim
    frames: Dim
    frames_of: str  # what has the frames, such as "output"
    needs_blanks: bool | None = None  # with CTC: whether there has to be one between two of the same. It may be shorter
    if_too_long: IfTooLong = "error"  # with CTC: or the loss is 0, the target is cut, or the output is no alignment
    how_to_go_on: str = ""  # a sentence for the error
    blank_label: int | None = None  # with CTC: the label that is blank, if one is, so that no target may have it

    def wrong_lengths(self, sample: DataSample, lengths_of: Mapping[Dim, Array]) -> Iterator[str]:
        """
        :param sample: of a data set
        :param lengths_of: by dim of the data, in each sequence of the sample
        :return: what is wrong, if a sequence does not fit
        """
        if self.if_too_long == "cut":
            return
        labels, frames = evaluated_lengths(self.own, lengths_of), evaluated_lengths(self.frames, lengths_of)
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
            f"{_CONSEQUENCES.get(self.if_too_long, '')}{f' {self.how_to_go_on}' if self.how_to_go_on else ''}"
        )


def blank_among_labels(blank: int, classes: Dim | None, labels: Dim | None) -> int | None:
    """
    :param blank: its class
    :param classes: of the scores
    :param labels: of the targets
    :return: blank, if it is one of the labels. With more classes than labels, these may have been shifted
    """
    is_label = classes is not None and labels is not None and labels.size is not None and labels.size == classes.size
    return blank if is_label else None


def data_keys_of(dim: Dim, templates: Mapping[str, Tensor]) -> Iterator[str]:
    """
    :param dim: of labels
    :param templates: of the data, by key
    :return: data keys of labels whose lengths it has, or is computed from
    """
    atoms = list(dim.expression.atoms())
    for key, template in templates.items():
        if template.sparse and any(own in atoms for own in template.dims):
            yield key


def wrong_lengths(
    compared: Sequence[ComparedDims], sample: DataSample, templates: Mapping[str, Tensor]
) -> tuple[list[str], list[str]]:
    """
    :param compared: of a network
    :param sample: of a data set
    :param templates: of its data, by key
    :return: errors: data of one time dim with other lengths, and targets that do not fit to what they are compared
        with; warnings: such targets with which a training goes on
    """
    errors: list[str] = list(sample.errors_of_common_dims(templates))
    warnings: list[str] = []
    lengths_of = {dim: lengths for _, dim, lengths in sample.lengths(templates)}
    for dims in () if errors else compared:
        found = dims.wrong_lengths(sample, lengths_of)
        if dims.if_too_long == "error":
            errors += found
        else:
            warnings += found
    return errors, warnings


def evaluated_lengths(dim: Dim, lengths_of: Mapping[Dim, Array]) -> Array | None:
    """
    :param dim: of sequences
    :param lengths_of: of the data
    :return: its length in each sequence; None if it depends on more than lengths of the data
    """
    if dim in lengths_of:
        return lengths_of[dim]
    if dim.length_rule is not None or any(atom not in lengths_of for atom in dim.expression.atoms()):
        return None
    return numpy.maximum(dim_math.evaluate(dim.expression, lengths_of.__getitem__), 0)
