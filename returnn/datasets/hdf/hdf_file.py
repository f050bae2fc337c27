"""
One HDF file in the layout of `HDFDataset`, read lazily.

- `inputs`: (all frames, feature...) or (all frames,) for labels, the sequences after each other; attribute
  `inputPattSize` of the file: number of features or labels
- `targets/data/KEY`: the same for each other data key, `targets/size` has the attribute KEY = (dim, ndim),
  `targets/labels/KEY` the names of labels
- `seqLengths`: (sequences, 1 + data keys), frames of `inputs` and then of the other keys in alphabetical order.
  Old files have one column for all keys, or one for the input and one for all others.
- `seqTags`: (sequences,)

Only each `_BLOCK`-th start of a sequence is kept in memory. Lengths and tags are read as they are needed.
"""

from __future__ import annotations

import codecs
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from returnn.datasets.core.changed_files import WatchedFile
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import IntArray
from returnn.util.errors import UserError
from returnn.util.files.text_file import open_maybe_gzip
from returnn.util.numbers.numbers_dict import NumbersDict
from returnn.util.texts.counted import counted

attr_inputPattSize = "inputPattSize"
attr_seqLengths = "seqLengths"
attr_ctcIndexTranscription = "ctcIndexTranscription"
attr_times = "times"
attr_digest = "digest"

_BLOCK = 1024  # sequences
_CACHED_BLOCKS = 64
_BEGIN_BYTES = 1000
_READ_BLOCK = 1 << 18  # sequences at once, for what needs all of them
_MIN_DENSITY = 1 << 9  # one of so many tags has to be needed, to read a whole block of them


class HdfFile:
    """
    One file, open for reading.

    `data_keys` starts with "data" (the `inputs`). `dims` has (dim, ndim) by key as `Dataset.num_outputs`.
    """

    def __init__(self, filename: str, *, where: str) -> None:
        """
        :param filename: of the HDF file
        :param where: for errors, the data set
        :raises DataError: if the file cannot be read or has another layout
        """
        self.filename = filename
        self._where = where
        self.h5_file = self._open()
        self._arrays = self._find_arrays()
        self.data_keys = list(self._arrays)
        self.dims = {key: self._get_dim(key) for key in self.data_keys}
        self.dtypes = {key: str(array.dtype) for key, array in self._arrays.items()}
        self.labels = self._read_labels()
        self._seq_lengths = self._require(attr_seqLengths)
        self._seq_tags = self.h5_file.get("seqTags")
        self.num_seqs: int = self._seq_lengths.shape[0]
        self._columns = self._find_columns()
        self._check_num_seqs()
        self._block_starts = self._read_block_starts()
        self._check_num_frames()
        self._length_blocks: OrderedDict[int, IntArray] = OrderedDict()
        self.digest = _digest_of(self.h5_file)
        self.watched = WatchedFile(filename, where=where, has_same_content=self._has_same_digest)

    def _has_same_digest(self) -> bool:
        return self.digest is not None and stored_digest(self.filename) == self.digest

    def _error(self, problem: str, *, key: str | None = None, hint: str | None = None) -> DataError:
        return DataError(problem, dataset=self._where, key=key, file=self.filename, hint=hint)

    def _open(self) -> h5py.File:
        try:
            return open_hdf(self.filename)
        except FileNotFoundError as exc:
            raise self._error("there is no such file") from exc
        except OSError as exc:
            problem = f"is no HDF file, or a damaged one ({str(exc).splitlines()[0]})"
            raise self._error(problem, hint=_hint_for_other_file(self.filename)) from exc

    def _require(self, name: str) -> Any:
        if name not in self.h5_file:
            have = ", ".join(sorted(self.h5_file)) or "nothing"
            raise self._error(f"has no {name!r}", hint=f"It has: {have}. See the option 'class' for other layouts.")
        return self.h5_file[name]

    def _find_arrays(self) -> dict[str, Any]:
        arrays = {DEFAULT_KEY: self._require("inputs")}
        if "targets/data" in self.h5_file:
            group = self.h5_file["targets/data"]
            arrays.update({key: group[key] for key in sorted(group)})
        return arrays

    def _get_dim(self, key: str) -> tuple[int, int]:
        array = self._arrays[key]
        ndim = array.ndim
        size = self.h5_file.get("targets/size")
        if key == DEFAULT_KEY:
            dim = int(self.h5_file.attrs.get(attr_inputPattSize, array.shape[-1] if ndim > 1 else 1))
        elif size is not None and key in size.attrs:
            dim = int(np.ravel(size.attrs[key])[0])
        else:
            raise self._error("has no size in the attributes of 'targets/size'", key=key)
        return dim, ndim

    def _read_labels(self) -> dict[str, list[str]]:
        labels = {}
        group = self.h5_file.get("targets/labels", {})
        for key in group:
            labels[key] = [_as_str(label) for label in group[key][...].tolist()]
        if "labels" in self.h5_file:
            names = [_as_str(label) for label in self.h5_file["labels"][...].tolist()]
            key = DEFAULT_KEY if self.dims[DEFAULT_KEY] == (len(names), 1) or "classes" not in self.dims else "classes"
            if names:
                labels.setdefault(key, names)
        return labels

    def _find_columns(self) -> dict[str, int]:
        """:return: which column of `seqLengths` a data key has"""
        num_columns = self._seq_lengths.shape[1] if self._seq_lengths.ndim == 2 else 1
        if num_columns not in (1, 2, len(self.data_keys)):
            raise self._error(
                f"'{attr_seqLengths}' has {counted(num_columns, 'column')}",
                hint=f"Expected {len(self.data_keys)}, for: {', '.join(self.data_keys)}.",
            )
        return {key: min(i, num_columns - 1) for i, key in enumerate(self.data_keys)}

    def _check_num_seqs(self) -> None:
        if self._seq_tags is not None and len(self._seq_tags) != self.num_seqs:
            raise self._error(
                f"has {counted(self.num_seqs, 'sequence length')}, but {counted(len(self._seq_tags), 'sequence tag')}"
            )

    def _read_lengths(self, start: int, end: int) -> IntArray:
        """:return: (sequences, columns)"""
        lengths = np.asarray(self._seq_lengths[start:end])
        return lengths if lengths.ndim == 2 else lengths[:, None]

    def _read_block_starts(self) -> IntArray:
        """:return: (blocks + 1, columns), frames before each block"""
        sums = [np.zeros((1, self._num_columns), np.int64)]
        for start in range(0, self.num_seqs, _READ_BLOCK):
            lengths = self._read_lengths(start, start + _READ_BLOCK)
            if lengths.size and lengths.min() < 0:
                bad = start + int(np.argmax((lengths < 0).any(axis=1)))
                raise DataError("has a negative length", dataset=self._where, seq=self.get_tag(bad), file=self.filename)
            sums.append(np.add.reduceat(lengths, np.arange(0, len(lengths), _BLOCK), axis=0, dtype=np.int64))
        return np.cumsum(np.concatenate(sums), axis=0)

    @property
    def _num_columns(self) -> int:
        return max(self._columns.values()) + 1 if self._seq_lengths.ndim == 1 else int(self._seq_lengths.shape[1])

    def _check_num_frames(self) -> None:
        for key, array in self._arrays.items():
            expected = int(self._block_starts[-1, self._columns[key]])
            if array.shape[0] != expected:
                raise self._error(
                    f"has {counted(array.shape[0], 'frame')}, but the sequence lengths add up to {expected}",
                    key=key,
                    hint="The file was not written to its end, or the lengths belong to other data.",
                )

    # One sequence.

    def _range_of_seq(self, seq_idx: int, column: int) -> tuple[int, int]:
        block_idx, offset = divmod(seq_idx, _BLOCK)
        ends = self._length_blocks.get(block_idx)
        if ends is None:
            lengths = self._read_lengths(block_idx * _BLOCK, (block_idx + 1) * _BLOCK)
            ends = self._block_starts[block_idx] + np.cumsum(lengths, axis=0, dtype=np.int64)
            self._length_blocks[block_idx] = ends
            if len(self._length_blocks) > _CACHED_BLOCKS:
                self._length_blocks.popitem(last=False)
        else:
            self._length_blocks.move_to_end(block_idx)
        start = ends[offset - 1, column] if offset else self._block_starts[block_idx, column]
        return int(start), int(ends[offset, column])

    def get_seq_length(self, seq_idx: int) -> NumbersDict:
        """:return: frames by data key"""
        lengths = {}
        for key, column in self._columns.items():
            start, end = self._range_of_seq(seq_idx, column)
            lengths[key] = end - start
        return NumbersDict(lengths)

    def read(self, seq_idx: int, key: str) -> Array:
        """:return: the data of one sequence, (time, ...)"""
        self.watched.check_from_time_to_time()
        start, end = self._range_of_seq(seq_idx, self._columns[key])
        try:
            return np.asarray(self._arrays[key][start:end])
        except OSError as exc:
            self.watched.check()
            raise DataError(
                f"cannot be read ({str(exc).splitlines()[0]})",
                dataset=self._where,
                seq=self.get_tag(seq_idx),
                key=key,
                file=self.filename,
            ) from exc

    def read_times(self, seq_idx: int) -> Array | None:
        """:return: start of each frame in seconds, if the file has that"""
        if attr_times not in self.h5_file:
            return None
        start, end = self._range_of_seq(seq_idx, self._columns[DEFAULT_KEY])
        return np.asarray(self.h5_file[attr_times][start:end])

    def get_tag(self, seq_idx: int) -> str:
        """:return: tag of one sequence"""
        if self._seq_tags is None:
            return f"seq-{seq_idx}"
        return _as_str(self._seq_tags[seq_idx])

    def get_tags(self, seq_indices: IntArray) -> npt.NDArray[np.bytes_]:
        """:return: tags of many sequences as UTF-8. Reads them in blocks, where they are dense"""
        order = np.argsort(seq_indices, kind="stable")
        blocks = seq_indices[order] // _READ_BLOCK
        pieces = []
        for positions in np.split(order, np.flatnonzero(np.diff(blocks)) + 1):
            wanted = seq_indices[positions]
            if len(positions) < _READ_BLOCK // _MIN_DENSITY or self._seq_tags is None:
                pieces.append(np.array([self.get_tag(int(i)).encode("utf8") for i in wanted], dtype="S"))
            else:
                start = int(wanted[0]) // _READ_BLOCK * _READ_BLOCK
                pieces.append(np.asarray(self._seq_tags[start : start + _READ_BLOCK], dtype="S")[wanted - start])
        sorted_tags = np.concatenate(pieces)
        tags = np.empty_like(sorted_tags)
        tags[order] = sorted_tags
        return tags

    # All sequences.

    def get_all_seq_lens(self) -> IntArray:
        """:return: (sequences,), frames of the input"""
        column = self._columns[DEFAULT_KEY]
        return np.asarray(self._seq_lengths[:, column] if self._seq_lengths.ndim == 2 else self._seq_lengths[:])

    def iter_tag_blocks(self) -> Iterator[npt.NDArray[np.bytes_]]:
        """:return: all tags as UTF-8, in blocks"""
        for start in range(0, self.num_seqs, _READ_BLOCK):
            end = min(start + _READ_BLOCK, self.num_seqs)
            if self._seq_tags is None:
                yield np.array([f"seq-{i}" for i in range(start, end)], dtype="S")
            else:
                yield np.asarray(self._seq_tags[start:end], dtype="S")

    def close(self) -> None:
        """Nothing can be read any more."""
        self.h5_file.close()


def _hint_for_other_file(filename: str) -> str | None:
    """:return: what reads a file that is none of HDF; None if it may be a damaged one"""
    if zipfile.is_zipfile(filename):
        return f"It is an archive. If it has audio or texts: {{'class': 'OggZipDataset', 'path': {filename!r}, ...}}."
    if _is_text(filename):
        return f"It is a text, for {{'class': 'LmDataset', 'corpus_file': {filename!r}, 'orth_vocab': ...}}."
    return None


def _is_text(filename: str) -> bool:
    """:return: whether the file begins with text, maybe compressed"""
    try:
        with open_maybe_gzip(filename) as file:
            begin = codecs.getincrementaldecoder("utf8")().decode(file.read(_BEGIN_BYTES))  # may end in a character
    except (OSError, EOFError, zlib.error, UserError, UnicodeDecodeError):
        return False
    return bool(begin.strip()) and all(char.isprintable() or char.isspace() for char in begin)


def open_hdf(filename: str) -> h5py.File:
    """
    :param filename: of an HDF file
    :return: for reading
    :raises OSError: if it cannot be read, or is no HDF file
    """
    # The library holds the lock of the interpreter while it waits for a disk that does not answer: then nothing could
    # be said, and no signal would end the process. So the waiting is done here.
    with open(filename, "rb") as file:
        file.read(1)
    return h5py.File(filename, "r")


def stored_digest(filename: str) -> str | None:
    """:return: of all that is in an HDF file, as our writer left it; None: it is another file"""
    try:
        # By a file of Python, as for the library this would be the file that is open already, as it was then.
        with open(filename, "rb") as raw, h5py.File(raw, "r") as file:
            return _digest_of(file)
    except (OSError, RuntimeError, KeyError):
        return None


def _digest_of(file: h5py.File) -> str | None:
    """:return: of all that is in the file, as the writer left it; None: the writer was another one"""
    digest = file.attrs.get(attr_digest)
    return None if digest is None else str(digest)


def _as_str(value: bytes | str) -> str:
    try:
        return value.decode("utf8") if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as exc:
        raise UserError(f"HDF file: the text {value!r} is not UTF-8.") from exc
