"""The first sequences of a data set, loaded to see whether they fit to the config; as many as there is time for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy

from returnn.config import Config
from returnn.datasets.core.batch_arrays import check_shape_of_seq
from returnn.datasets.core.batch_generator import BatchLimits
from returnn.datasets.core.chunking import check_chunks
from returnn.datasets.core.data_check import empty_seqs
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import Array
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.datasets.whole_data import is_filtered_by_epoch, parts_of
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError, UserError
from returnn.util.numbers.numbers_dict import NumbersDict
from returnn.util.python.user_code_errors import describe_exception, last_place_of_user
from returnn.util.texts.counted import counted

_MOST_SEQS = 10_000
_LIMIT_S = 3.0  # after which no further sequence is loaded


@dataclass(frozen=True)
class UnknownPart:
    """Labels of a data key that a vocabulary has not."""

    num: int
    num_labels: int  # all of them
    label: str  # what they became
    are_words: bool  # not parts of these, or characters
    tag: str  # the first sequence that has one
    example: str | None  # as the text has it, if that is known

    def described(self, key: str) -> str:
        """:return: for people"""
        example = f", such as {self.example!r:.50}" if self.example is not None else ""
        share = f" ({part:.1%})" if (part := self.num / self.num_labels) >= 0.0005 else ""
        num_labels = counted(self.num_labels, "label", ",")
        return f"{self.num:,} of {num_labels} of {key!r} unknown{share}, first in {self.tag!r}{example}"


@dataclass(frozen=True)
class DataSample:
    """What was seen of a data set."""

    num_seqs: int
    is_all: bool
    last_labels: Mapping[str, frozenset[int]]  # by data key: what sequences end with
    tags: Sequence[str] = ()
    shapes: Mapping[str, Array] = field(default_factory=dict)  # by data key: [sequence, axis]
    num_repeats: Mapping[str, Array] = field(default_factory=dict)  # of labels: how many are the same as the one before
    first_tags: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # of each label: a sequence that has it
    unknown_parts: Mapping[str, UnknownPart] = field(default_factory=dict)  # by data key, if there are any
    example: Mapping[str, Array] = field(default_factory=dict)  # the data of a short sequence, by key

    def __str__(self) -> str:
        """As `check` says it, e.g. "all 300 sequences"."""
        return f"{'all' if self.is_all else 'the first'} {counted(self.num_seqs, 'sequence', ',')}"

    def described(self) -> str:
        """:return: as `str`, with unknown labels"""
        return "; ".join([str(self), *(part.described(key) for key, part in self.unknown_parts.items())])

    def only(self, accepts: Callable[[NumbersDict], bool]) -> DataSample:
        """
        :param accepts: whether a sequence counts, by its lengths
        :return: what was seen of those that do. How many were loaded stays the same
        """
        lengths = ({key: int(shapes[i, 0]) for key, shapes in self.shapes.items()} for i in range(len(self.tags)))
        kept = [i for i, of_seq in enumerate(lengths) if accepts(NumbersDict(of_seq))]
        return dataclasses.replace(
            self,
            tags=[self.tags[i] for i in kept],
            shapes={key: shapes[kept] for key, shapes in self.shapes.items()},
            num_repeats={key: repeats[kept] for key, repeats in self.num_repeats.items()},
        )

    def lengths(self, templates: Mapping[str, Tensor]) -> Iterator[tuple[str, Dim, Array]]:
        """
        :param templates: of the data
        :return: data key, its dims of sequences, and how long these are in each sequence
        """
        for key, shapes in self.shapes.items():
            if key in templates:
                dims = [dim for dim in templates[key].dims if not dim.is_batch_dim()]
                for axis, dim in enumerate(dims[: shapes.shape[-1]]):
                    if dim.size is None:
                        yield key, dim, shapes[:, axis]

    def seqs(self, indices: Array) -> str:
        """
        :param indices: of sequences in the sample, at least one
        :return: for people
        """
        more = f" and {counted(indices.size - 1, 'other')}" if indices.size > 1 else ""
        return f"the sequence {self.tags[indices[0]]!r}{more} ({self})"

    def errors_of_common_dims(self, templates: Mapping[str, Tensor]) -> Iterator[str]:
        """
        :param templates: of the data
        :return: errors: data keys of the same time dim, with other lengths
        """
        first: dict[Dim, tuple[str, Array]] = {}
        for key, dim, lengths in self.lengths(templates):
            other, other_lengths = first.setdefault(dim, (key, lengths))
            wrong = numpy.flatnonzero(other_lengths != lengths)
            if wrong.size:
                yield (
                    f"extern_data: {other!r} and {key!r} have the same time dim, but other lengths in "
                    f"{self.seqs(wrong)}: {other_lengths[wrong[0]]} and {lengths[wrong[0]]}."
                )


def load_sample(dataset: Dataset, templates: Mapping[str, Tensor], *, limits: BatchLimits | None = None) -> DataSample:
    """
    Loads all data of the first sequences, with `partition_epoch` also of the parts after the first one.

    :param dataset: any
    :param templates: by data key, which the data has to fit to; others may be any
    :param limits: leave sequences out later, see `limits_of_data`
    :return: what was seen
    :raises UserError: if a sequence does not fit, such as for a word that is not in the vocabulary, or for `chunking`
        that gives data keys different numbers of chunks
    """
    end = time.monotonic() + _LIMIT_S
    tags: list[str] = []
    seen = {key: _Seen(template, dataset.vocabs.get(key)) for key, template in templates.items()}
    example: dict[str, Array] = {}
    is_all = not is_filtered_by_epoch(dataset)
    for i in _seqs_of_all_parts(dataset):
        if len(tags) == _MOST_SEQS or (tags and time.monotonic() >= end):
            is_all = False
            break
        with empty_seqs.wait(is_needed=limits is not None and limits.leaves_out_empty):
            _load_seq(dataset, i)
        tags.append(dataset.get_tag(i))
        if limits is not None and limits.accepts_seq(dataset.get_seq_length(i)):
            empty_seqs.check(tags[-1], dataset.get_seq_length(i))
        data_of_seq = dict(_data_of_seq(dataset, i, templates))
        if data_of_seq:
            check_chunks(dataset, i, data_of_seq)
        for key, data in data_of_seq.items():
            seen[key].add(data, tags[-1])
        if _is_better_example(data_of_seq, example):
            example = data_of_seq
    dataset.finish_epoch(free_resources=True)
    return DataSample(
        len(tags),
        is_all,
        last_labels={key: frozenset(of_key.last_labels) for key, of_key in seen.items()},
        tags=tags,
        shapes={key: numpy.array(of_key.shapes) for key, of_key in seen.items() if of_key.shapes},
        num_repeats={key: numpy.array(of_key.num_repeats) for key, of_key in seen.items() if of_key.num_repeats},
        first_tags={key: of_key.first_tags for key, of_key in seen.items()},
        unknown_parts={key: part for key, of_key in seen.items() if (part := of_key.unknown_part()) is not None},
        example=example,
    )


def _seqs_of_all_parts(dataset: Dataset) -> Iterator[int]:
    """:return: index of each sequence in its epoch, of as many epochs as have all of the data"""
    for epoch in range(1, parts_of(dataset) + 1):
        dataset.init_seq_order(epoch=epoch)
        i = 0
        while dataset.is_less_than_num_seqs(i):
            yield i
            i += 1


def _load_seq(dataset: Dataset, seq_idx: int) -> None:
    """:raises UserError: also for any other error in code of a user, such as a function that changes the data"""
    try:
        dataset.load_seqs(seq_idx, seq_idx + 1)
    except UserError:
        raise
    except Exception as exc:
        place = last_place_of_user(exc)
        if place is None:
            raise
        raise UserError(f"{dataset.description}: {describe_exception(exc, place=place)}") from exc


def _is_better_example(data: Mapping[str, Array], best: Mapping[str, Array]) -> bool:
    """:return: whether it is shorter, but has a frame with others around it"""
    if any(array.ndim and len(array) < 3 for array in data.values()):
        return False
    return not best or sum(array.size for array in data.values()) < sum(array.size for array in best.values())


class _Seen:
    """What sequences of a data key have."""

    def __init__(self, template: Tensor, vocab: Vocabulary | None) -> None:
        """
        :param template: of the data key
        :param vocab: of its texts, if the data set has made the labels of these
        """
        self.shapes: list[tuple[int, ...]] = []
        self.last_labels: set[int] = set()
        self.num_repeats: list[int] = []
        self.first_tags: dict[int, str] = {}
        self._num_labels = 0
        self._num_unknown = 0
        self._tag_of_unknown = ""
        self._is_sparse = template.sparse
        self._vocab = vocab
        names = vocab if vocab is not None else template.vocab
        self._unknown_label: int | None = getattr(names, "unknown_label_id", None)
        self._are_words = not getattr(names, "has_parts_of_words", False)
        self._unknown_label_name = str(getattr(names, "unknown_label", None))

    def add(self, data: Array, tag: str) -> None:
        self.shapes.append(data.shape)
        if self._is_sparse and data.ndim == 1:
            self.last_labels.update(map(int, data[-1:]))
            self.num_repeats.append(int((data[1:] == data[:-1]).sum()))
            for label in numpy.unique(data):
                self.first_tags.setdefault(int(label), tag)
        if self._unknown_label is not None:
            self._num_labels += data.size
            num_unknown = int((data == self._unknown_label).sum())
            if num_unknown and not self._num_unknown:
                self._tag_of_unknown = tag
            self._num_unknown += num_unknown

    def unknown_part(self) -> UnknownPart | None:
        """:return: None if there are no unknown labels"""
        if not self._num_unknown:
            return None
        example = self._vocab.example_of_unknown if self._vocab is not None else None
        return UnknownPart(
            self._num_unknown,
            self._num_labels,
            self._unknown_label_name,
            self._are_words,
            self._tag_of_unknown,
            example,
        )


def limits_of_data(config: Config, name: str) -> BatchLimits | None:
    """
    :param config: its limits leave sequences out of `train` and `dev`
    :param name: of the data set
    :return: these limits; None: there are none
    """
    options = config.options
    if name not in ("train", "dev") or not (options.max_seq_length or options.min_seq_length):
        return None
    return BatchLimits.of(max_seq_length=options.max_seq_length, min_seq_length=options.min_seq_length)


def used_part(sample: DataSample, limits: BatchLimits | None) -> DataSample:
    """
    :param sample: of a data set
    :param limits: which leave sequences out
    :return: what is used
    """
    return sample if limits is None else sample.only(limits.accepts_seq)


def _data_of_seq(dataset: Dataset, seq_idx: int, templates: Mapping[str, Tensor]) -> Iterator[tuple[str, Array]]:
    for key in dataset.get_data_keys():
        data = dataset.get_data(seq_idx, key)
        if key in templates:
            check_shape_of_seq(data, templates[key], key)
            _check_labels(data, templates[key], key, dataset.get_tag(seq_idx))
            yield key, data


def _check_labels(data: Array, template: Tensor, key: str, tag: str) -> None:
    if not template.sparse or not template.dim or not data.size or data.dtype.kind not in "iu":
        return
    low, high = int(data.min()), int(data.max())
    if low < 0 or high >= template.dim:
        raise ConfigError(
            f"extern_data: {key!r} has {counted(template.dim, 'label')}, from 0 to {template.dim - 1}, but the "
            f"sequence {tag!r} has the label {low if low < 0 else high}."
        )
