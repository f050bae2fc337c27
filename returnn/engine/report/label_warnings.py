"""Labels that a model cannot learn from its data, or should not: that of the end, blank, and what is unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from returnn.engine.report.compared_lengths import ComparedDims
from returnn.engine.report.data_sample import DataSample
from returnn.tensor import Tensor
from returnn.util.texts.counted import counted

_MOST_UNTRAINED = 0.001  # part of the labels, with which scores are about the same


def end_label_warnings(
    compared: Sequence[ComparedDims],
    predicted: Collection[str],
    samples: Iterable[DataSample],
    templates: Mapping[str, Tensor],
) -> Iterator[str]:
    """
    :param compared: of a network
    :param predicted: data keys of labels, each of which a cross entropy compares with a frame of the output
    :param samples: of its data sets
    :param templates: of their data, by key
    :return: targets of CTC which end with a label that is no part of the text, and those that lack their end, unless
        they are labels of the frames of other data
    """
    samples = list(samples)
    inputs = set(templates).difference(predicted)
    of_ctc = {dims.target for dims in compared if dims.needs_blanks is not None}
    for key in sorted(of_ctc.union(predicted)):
        vocab = templates[key].vocab if key in templates else None
        last = {label for sample in samples for label in sample.last_labels.get(key, ())}
        if vocab is None or not last:
            continue
        if key in of_ctc and len(last) == 1 and vocab.id_to_label(*last, None) == vocab.end_label:
            yield (
                f"the target {key!r} of CTC always ends with {vocab.end_label!r}, which is no part of the "
                f"text. CTC needs no label of the end: leave out {vocab.end_option!r} of its vocabulary."
            )
        if key in of_ctc or vocab.eos_label_id is None or vocab.eos_label_id in last:
            continue
        if not any(_have_same_frames(key, other, samples, templates) for other in inputs):
            yield (
                f"the vocabulary of {key!r} says that {vocab.id_to_label(vocab.eos_label_id)!r} is the end, but no "
                "sequence ends with it, so the model does not learn where one ends. "
                f"The option {vocab.end_option!r} of the vocabulary puts it there."
            )


def _have_same_frames(key: str, other: str, samples: Sequence[DataSample], templates: Mapping[str, Tensor]) -> bool:
    """:return: whether labels are those of the frames of other data, which says where these end, as tags of words do"""
    labels, frames = templates[key], templates[other]
    if frames.sparse and frames.dim == labels.dim:  # the same text, delayed
        return False
    shapes = [sample.shapes for sample in samples if key in sample.shapes]
    return all(
        other in of_sample
        and of_sample[other].shape[-1] > 0
        and bool((of_sample[other][:, 0] == of_sample[key][:, 0]).all())
        for of_sample in shapes
    )


def blank_label_warnings(
    compared: Sequence[ComparedDims], samples: Mapping[str, DataSample], templates: Mapping[str, Tensor]
) -> Iterator[str]:
    """
    :param compared: of a network
    :param samples: of data sets, by name
    :param templates: of their data, by key
    :return: targets of CTC which have the label that is blank: it is the class of both, so that scores are of something
        else
    """
    for dims in compared:
        for name, sample in samples.items():
            tag = sample.first_tags.get(dims.target, {}).get(dims.blank_label)
            if tag is None:
                continue
            vocab = templates[dims.target].vocab if dims.target in templates else None
            label = f"label {dims.blank_label}" + (f" ({vocab.id_to_label(dims.blank_label)!r})" if vocab else "")
            yield (
                f"{dims.where}: {label} of the target {dims.target!r} is blank, but data {name!r} has it, first in"
                f" {tag!r}. A label is the class of the same index, not shifted for blank: take a label that is in no"
                " target, or one class more than there are labels, the last one."
            )
            break


def unknown_label_warnings(samples: Mapping[str, DataSample]) -> Iterator[str]:
    """
    :param samples: of data sets, by name
    :return: labels of what is unknown which other data has, but not that of the training
    """
    train = samples.get("train")
    if train is None:
        return
    for name, sample in samples.items():
        for key, part in sample.unknown_parts.items():
            num_seen = int(train.shapes[key].prod(axis=-1).sum()) if key in train.shapes else 0
            is_seen = key in train.unknown_parts or not num_seen
            is_known = train.is_all or num_seen >= part.num_labels
            if is_seen or not is_known or part.num <= _MOST_UNTRAINED * part.num_labels:
                continue
            hint = (
                " With a vocabulary that lacks rare words ('--size' of `returnn tool make-vocab`), they are "
                f"{part.label!r} in 'train', too."
            )
            yield (
                f"data {name!r}: {part.num:,} of {counted(part.num_labels, 'label', ',')} of {key!r} are "
                f"{part.label!r}, of which 'train' has none ({train}), so the model does not learn how probable that "
                f"is.{hint if part.are_words else ''}"
            )
