"""
Checks that the data of a sequence is what its data set says it is. Each failure is one `DataError`.

A network has nothing to compute of a sequence without frames, such as an empty line of a text. So it is an error,
unless somebody knows what stands in place of the output: a search finds nothing there, and its hypotheses are still one
for each line. Batches get one frame of zeros, then. Or `min_seq_length` leaves the sequence out: where there is such a
limit, the error waits for the length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.epoch_sequences import EpochSequences
from returnn.datasets.core.errors import DataError
from returnn.util.numbers.numbers_dict import NumbersDict

EMPTY = "has no frames"
_HINT = "'min_seq_length = {\"data\": 1}' leaves such sequences out of training and dev, 'seq_list_filter_file' always."
_noted: list[set[str]] = []  # tags of sequences without frames, of the whole process, as threads load data


@dataclass(frozen=True)
class KeyInfo:
    """What a data set says about one data key."""

    dim: int | None  # number of labels, or of features; None: anything
    ndim: int  # axes of the data of one sequence, with time
    is_sparse: bool
    dtype: str  # "string": text, which is not checked


@dataclass(frozen=True)
class Problem:
    """What is wrong with a data key, and what is possible."""

    key: str
    text: str
    hint: str | None = None


def find_problem(seq: DatasetSeq, keys: Collection[str], get_info: Callable[[str], KeyInfo]) -> Problem | None:
    """
    :param seq: to check
    :param keys: that it should have
    :param get_info: for one of these keys
    :return: the first thing that is wrong
    """
    missing = [key for key in keys if key not in seq.features]
    if missing:
        return Problem(missing[0], "is missing", f"The sequence has: {', '.join(sorted(seq.features)) or 'nothing'}.")
    for key, data in seq.features.items():
        if key not in keys:
            continue
        problem = _find_key_problem(data, get_info(key))
        if problem:
            return Problem(key, *problem)
    if _noted:
        return None
    empty_key = DEFAULT_KEY if DEFAULT_KEY in seq.features else next(iter(seq.features), DEFAULT_KEY)
    if empty_key in seq.features and seq.features[empty_key].ndim and not len(seq.features[empty_key]):
        return Problem(empty_key, EMPTY, _HINT)
    return None


class EmptySeqs:
    """Sequences without frames that may be left out, of all data sets of the process. The errors wait in here."""

    def __init__(self) -> None:
        self._errors = WeakKeyDictionary[object, dict[str, DataError]]()  # by data set and tag
        self._num_waiting = 0

    @contextmanager
    def wait(self, *, is_needed: bool) -> Iterator[None]:
        """
        Around what loads sequences whose lengths are looked at next.

        :param is_needed: whether some can be left out
        """
        self._num_waiting += is_needed
        try:
            yield
        finally:
            self._num_waiting -= is_needed

    def raise_or_wait(self, error: DataError, *, dataset: object, tag: str) -> None:
        """
        :param error: says that the sequence is empty
        :param dataset: which has it
        :param tag: of the sequence
        :raises DataError: unless it waits, or did when the sequence was loaded before
        """
        if self._num_waiting:
            self._errors.setdefault(dataset, {})[tag] = error
        if tag not in self._errors.get(dataset, ()):
            raise error

    def check(self, tag: str, lengths: NumbersDict) -> None:
        """
        :param tag: of a sequence that takes part
        :param lengths: by data key
        :raises DataError: if it is empty, maybe in a data set inside of the one that has these keys
        """
        if self._errors and not _noted and not all(lengths.values()):
            for errors in self._errors.values():
                if tag in errors:
                    raise errors[tag]


empty_seqs = EmptySeqs()


def as_dtype(data: Array, dtype: str, *, dataset: str, seq: str, key: str) -> Array:
    """
    :param data: of a sequence
    :param dtype: to convert it to
    :param dataset: for the error
    :param seq: its tag, for the error
    :param key: for the error
    :raises DataError: if integers would become other ones
    """
    if _is_text(dtype) or data.dtype == dtype:
        return data
    converted = data.astype(dtype)
    if converted.dtype.kind in "biu" and not np.array_equal(converted, data):
        raise DataError(f"has numbers that are not {dtype}", dataset=dataset, seq=seq, key=key)
    return converted


@contextmanager
def empty_seqs_allowed() -> Iterator[set[str]]:
    """:return: in the `with` block, sequences may have no frames; the tags of those that come into batches"""
    found: set[str] = set()
    _noted.append(found)
    try:
        yield found
    finally:
        _noted.pop()


def end_with_a_frame(end: NumbersDict, dataset: EpochSequences, seq_idx: int) -> NumbersDict:
    """
    :param end: of the sequence, by key
    :param dataset: has it
    :param seq_idx: of the sequence; its tag is noted if it is empty
    :return: end of a sequence that has a frame, where empty ones are allowed; also in other keys without frames, as
        they may have the same dim
    """
    if not _noted:
        return end
    length = dataset.get_seq_length(seq_idx)
    key = DEFAULT_KEY if length.has_value_for(DEFAULT_KEY) else next(iter(length), None)
    if key is None or length[key] or not end.has_value_for(key):
        return end
    _noted[-1].add(dataset.get_tag(seq_idx))
    return end + NumbersDict({name: int(name == key or length.get(name) == 0) for name in end})


def _is_text(dtype: str) -> bool:
    return dtype in ("string", "str", "bytes") or np.dtype(dtype).kind in "SUO"


def _find_key_problem(data: Array, info: KeyInfo) -> tuple[str, str | None] | None:
    if _is_text(info.dtype):
        return None
    if data.dtype.kind not in "biuf" and data.dtype.kind != "c":
        return f"dtype {data.dtype} is no number", f"Expected {info.dtype}."
    if data.ndim != info.ndim:
        return f"shape {data.shape} has {data.ndim} axes, expected {info.ndim} (with time)", None
    if info.is_sparse:
        return _find_label_problem(data, info)
    if info.ndim >= 2 and info.dim is not None and data.shape[-1] != info.dim:
        return f"feature dimension is {data.shape[-1]}, expected {info.dim}", None
    if data.dtype.kind == "f":
        return _find_float_problem(data)
    return None


def _find_label_problem(data: Array, info: KeyInfo) -> tuple[str, str | None] | None:
    if data.dtype.kind not in "biu":
        return f"labels have dtype {data.dtype}", "Labels have to be integers."
    if not data.size or not info.dim or info.dim == 1:
        return None  # files have dim 1 also for integers which are no labels
    low, high = int(data.min()), int(data.max())
    if low >= 0 and high < info.dim:
        return None
    label = low if low < 0 else high
    frame = _where(data == label)
    return f"label {label}{frame} is out of range", f"There are {info.dim} labels, from 0 to {info.dim - 1}."


def _find_float_problem(data: Array) -> tuple[str, str | None] | None:
    # The sum of finite numbers may overflow, so it is only good for a quick yes.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(data.sum(dtype=np.promote_types(data.dtype, np.float32))):
            return None
    bad = ~np.isfinite(data)
    if not bad.any():
        return None
    value = data[bad][0]
    return f"{value} in {int(bad.sum())} of {data.size} numbers, first{_where(bad)}", None


def _where(bad: Array) -> str:
    return f" at frame {np.argwhere(bad)[0][0]}" if bad.ndim else ""
