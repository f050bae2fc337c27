"""
Writes HDF files in the layout of `HDFDataset` (see `hdf_file`).

`SimpleHDFWriter` takes padded batches, `HDFDatasetWriter` a whole data set. The file is written aside, and gets its
name when it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

import h5py
import numpy as np

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.errors import DataError
from returnn.datasets.hdf.forgiving_file import ForgivingFile
from returnn.datasets.hdf.hdf_file import attr_digest, attr_inputPattSize, attr_seqLengths
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.files.aside import mode_of_new, open_aside
from returnn.util.files.atomic_file import check_writable, sync_folder
from returnn.util.texts.counted import counted

ExtraType: TypeAlias = "Mapping[str, tuple[int | None, int, str]]"

_FLUSH_BYTES = 8 << 20
_FLUSH_SEQS = 1024
_CHUNK_BYTES = 64 << 10  # of the arrays in the file
_SIZES_KEY = "sizes"


@dataclass(frozen=True)
class KeyFormat:
    """How the data of one key is stored."""

    dim: int  # number of labels or features
    ndim: int  # axes of one sequence, with time
    dtype: str


class HdfFileWriter:
    """Appends sequences to one file. Keeps some of them in memory, to write larger blocks."""

    def __init__(
        self,
        filename: str,
        *,
        aside: bool = True,
        extend: bool = False,
        replace: bool = False,
        compression: str | None = None,
        buffer_bytes: int = _FLUSH_BYTES,
        buffer_seqs: int = _FLUSH_SEQS,
    ) -> None:
        """
        :param filename: of the HDF file; it must not exist yet, unless `extend` or `replace`
        :param aside: whether to write to a temporary file, and to rename that in `close`
        :param extend: whether to go on with an existing file
        :param replace: whether an existing file is replaced, by `close`
        :param compression: of the data, a name that `h5py` has, such as "gzip"; None: none
        :param buffer_bytes: of data that are kept in memory, before they are written
        :param buffer_seqs: the same, a number of sequences
        """
        if os.path.exists(filename) and not os.path.isfile(filename):
            raise UserError(f"HDF file {filename}: that is no file, so it cannot be written.")
        if os.path.exists(filename) and not extend and not replace:
            raise UserError(
                f"HDF file {filename} exists already.\n  Remove it, or set extend_existing_file to add to it."
            )
        self.filename = filename
        _check_writable(filename)
        self.tmp_filename: str | None = None
        self._raw: ForgivingFile | None = None
        if aside:
            exists = extend and os.path.exists(filename)
            handle, self.tmp_filename = open_aside(filename, prefix=f"{os.path.basename(filename)}.")
            if exists:
                shutil.copyfile(filename, self.tmp_filename)
            self._raw = ForgivingFile(handle, "r+b", name=filename)
            self.file = h5py.File(self._raw, "r+" if exists else "w")
        else:
            self.file = h5py.File(filename, "a" if extend else "w", libver="latest")
        self._formats: dict[str, KeyFormat] = {}
        self._buffer: dict[str, list[Array]] = {}
        self._buffered_lengths: list[list[int]] = []
        self._buffered_tags: list[str] = []
        self._buffered_bytes = 0
        self._compression = compression
        self._buffer_bytes = buffer_bytes
        self._buffer_seqs = buffer_seqs
        self._digest = str(self.file.attrs.get(attr_digest, ""))
        self.num_seqs = int(self.file.attrs.get("numSeqs", 0))
        self._num_timesteps = int(self.file.attrs.get("numTimesteps", 0))

    @property
    def has_formats(self) -> bool:
        """Whether `set_formats` was called."""
        return bool(self._formats)

    def set_formats(self, formats: Mapping[str, KeyFormat], labels: Mapping[str, Sequence[str]]) -> None:
        """
        :param formats: by data key; "data" becomes the `inputs`
        :param labels: names of labels by data key
        """
        self._formats = {key: formats[key] for key in [DEFAULT_KEY, *sorted(k for k in formats if k != DEFAULT_KEY)]}
        self._buffer = {key: [] for key in self._formats}
        if attr_seqLengths in self.file:
            self._check_same_formats()
            return
        attrs = self.file.attrs
        attrs[attr_inputPattSize] = self._formats[DEFAULT_KEY].dim
        attrs["numDims"] = 1
        attrs["numLabels"] = self._formats.get("classes", self._formats[DEFAULT_KEY]).dim
        self.file.create_dataset(
            attr_seqLengths, (0, len(self._formats)), "int32", maxshape=(None, len(self._formats)), chunks=True
        )
        self.file.create_dataset("seqTags", (0,), h5py.string_dtype(), maxshape=(None,), chunks=(1024,))
        targets = self.file.create_group("targets") if len(self._formats) > 1 else None
        if targets is not None:
            size = targets.create_group("size")
            for key, fmt in self._formats.items():
                if key != DEFAULT_KEY:
                    size.attrs[key] = [fmt.dim, fmt.ndim]
        self._write_labels(labels)

    def _check_same_formats(self) -> None:
        num_columns = self.file[attr_seqLengths].shape[1]
        existing = [DEFAULT_KEY, *sorted(self.file.get("targets/data", ()))]
        if existing != list(self._formats) or num_columns != len(existing):
            raise UserError(
                f"HDF file {self.filename} cannot be extended:"
                f" it has the data keys {existing}, not {list(self._formats)}."
            )

    def _write_labels(self, labels: Mapping[str, Sequence[str]]) -> None:
        for key, names in labels.items():
            path = "labels" if key == DEFAULT_KEY else f"targets/labels/{key}"
            encoded = np.array([name.encode("utf8") for name in names], dtype="S")
            self.file.create_dataset(path, data=encoded)

    def append(self, tag: str, data: Mapping[str, Array]) -> None:
        """
        :param tag: of the sequence
        :param data: by key, with the formats of `set_formats`
        """
        lengths = []
        for key, fmt in self._formats.items():
            array = data[key]
            if array.ndim == 0:
                array = array[None]
            if array.ndim != fmt.ndim:
                raise DataError(
                    f"shape {array.shape} has {counted(array.ndim, 'axis')}, expected {fmt.ndim}",
                    dataset="HDF writer",
                    seq=tag,
                    key=key,
                    file=self.filename,
                )
            lengths.append(len(array))
            self._buffer[key].append(array)
            self._buffered_bytes += array.nbytes
        self._buffered_lengths.append(lengths)
        self._buffered_tags.append(tag)
        if self._buffered_bytes >= self._buffer_bytes or len(self._buffered_tags) >= self._buffer_seqs:
            self.flush()

    def flush(self) -> None:
        """Writes what is kept in memory, and makes it visible to readers."""
        if self._buffered_tags:
            self._write_buffer()
        self.file.flush()
        if self._raw is not None:
            self._raw.check()

    def _write_buffer(self) -> None:
        self.file.attrs[attr_digest] = self._digest = self._digest_with_buffer()
        for key, arrays in self._buffer.items():
            _append_rows(self._array_of(key, arrays[0].shape[1:]), np.concatenate(arrays))
            arrays.clear()
        _append_rows(self.file[attr_seqLengths], np.array(self._buffered_lengths, "int32"))
        _append_rows(self.file["seqTags"], np.array([tag.encode("utf8") for tag in self._buffered_tags], dtype=object))
        self.num_seqs += len(self._buffered_tags)
        self._num_timesteps += sum(lengths[0] for lengths in self._buffered_lengths)
        self._buffered_tags, self._buffered_lengths, self._buffered_bytes = [], [], 0
        self.file.attrs["numSeqs"] = self.num_seqs
        self.file.attrs["numTimesteps"] = self._num_timesteps

    def _digest_with_buffer(self) -> str:
        """:return: of what is there, and of what comes"""
        digest = hashlib.sha256(self._digest.encode("ascii"))
        for tag, lengths in zip(self._buffered_tags, self._buffered_lengths, strict=True):
            digest.update(f"{tag}\n{lengths}\n".encode())
        for key, arrays in self._buffer.items():
            digest.update(f"{key} {self._formats[key]}\n".encode())
            for array in arrays:
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _array_of(self, key: str, shape: tuple[int, ...]) -> Any:
        """:return: all frames of a key, each of the given shape"""
        path = "inputs" if key == DEFAULT_KEY else f"targets/data/{key}"
        if path not in self.file:
            dtype = np.dtype(self._formats[key].dtype)
            rows = max(_CHUNK_BYTES // max(int(np.prod(shape)) * dtype.itemsize, 1), 1)
            chunks = (rows, *(max(size, 1) for size in shape))
            options = {"maxshape": (None, *shape), "chunks": chunks, "compression": self._compression}
            self.file.create_dataset(path, (0, *shape), dtype, **options)
        return self.file[path]

    def close(self) -> None:
        """Completes the file, and gives it its name."""
        if self.file:
            for key, fmt in self._formats.items():
                if not self.num_seqs and not self._buffered_tags:
                    self._array_of(key, (fmt.dim,) * (fmt.ndim - 1))
            self.flush()
            self.file.close()
        if self._raw is not None:
            self._raw.check()
            self._raw.close()
        if self.tmp_filename and os.path.exists(self.tmp_filename):
            with open(self.tmp_filename, "rb") as tmp_file:
                os.fchmod(tmp_file.fileno(), mode_of_new(self.filename))
                os.fsync(tmp_file.fileno())
            os.replace(self.tmp_filename, self.filename)
            sync_folder(os.path.dirname(os.path.abspath(self.filename)))

    def discard(self) -> None:
        """Leaves things as they were before."""
        self.file.close()
        if self._raw is not None:
            self._raw.close()
        if self.tmp_filename:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.tmp_filename)


def _append_rows(array: Any, rows: Array) -> None:
    start = array.shape[0]
    array.resize(start + len(rows), axis=0)
    array[start:] = rows


def _check_writable(filename: str) -> None:
    """Makes the folder, and says now if no file can be written to it."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(filename)), exist_ok=True)
    except OSError as exc:
        raise UserError(f"cannot write the file {filename!r}: {exc.strerror}.") from exc
    check_writable(filename)


class SimpleHDFWriter:
    """
    Writes padded batches, as they come out of a network.

    Axes of varying size come first. Data with more than one of them is flattened over them; the data key "sizes" has
    their sizes.
    """

    def __init__(
        self,
        filename: str,
        dim: int | None,
        labels: Sequence[str] | None = None,
        ndim: int | None = None,
        extra_type: ExtraType | None = None,
        swmr: bool = False,
        extend_existing_file: bool = False,
        extra_labels: Mapping[str, Sequence[str]] | None = None,
        *,
        replace_existing_file: bool = False,
    ) -> None:
        """
        :param filename: of the HDF file
        :param dim: number of features, or of labels
        :param labels: names of the labels
        :param ndim: axes of the data of one sequence, with time. By default 2 (features) if there is a `dim`.
        :param extra_type: further data keys: (dim, ndim, dtype)
        :param swmr: lets other processes read while this one writes; the file has its name from the beginning then
        :param extend_existing_file: whether to add to an existing file
        :param extra_labels: names of the labels of further data keys
        :param replace_existing_file: whether an existing file is replaced, once this one is complete
        """
        self.filename = filename
        self.dim = dim
        self.ndim = ndim if ndim is not None else (1 if dim is None else 2)
        self.labels = labels
        self.extend_existing_file = extend_existing_file
        self._extra_type = dict(extra_type or {})
        self._extra_labels = dict(extra_labels or {})
        self._swmr = swmr
        self._writer = HdfFileWriter(
            filename, aside=not swmr, extend=extend_existing_file, replace=replace_existing_file
        )
        self.tmp_filename = self._writer.tmp_filename

    def __enter__(self) -> SimpleHDFWriter:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is None:
            self.close()
        else:
            self.discard()

    def discard(self) -> None:
        """Leaves things as they were before."""
        self._writer.discard()

    def close(self) -> None:
        """Completes the file."""
        if not self._writer.has_formats:
            empty = np.zeros((0,) * self.ndim, "float32")
            self._set_formats({DEFAULT_KEY: empty, **dict.fromkeys(self._extra_type, empty)})
        self._writer.close()

    def insert_batch(
        self,
        inputs: Array,
        seq_len: Sequence[int] | Array | Mapping[int, Sequence[int] | Array],
        seq_tag: Sequence[str],
        extra: Mapping[str, Array | Sequence[Array]] | None = None,
    ) -> None:
        """
        :param inputs: (batch, time, ...), padded
        :param seq_len: (batch,), frames. Or these by axis, counted without the batch axis, for all of varying size.
        :param seq_tag: (batch,), tags
        :param extra: further data by key: one entry per sequence, without padding
        """
        inputs = np.asarray(inputs)
        if inputs.dtype.name == "bfloat16":  # which HDF files do not have; float32 has all of its values
            inputs = inputs.astype("float32")
        lengths = {0: seq_len} if not isinstance(seq_len, Mapping) else dict(seq_len)
        num_seqs = len(seq_tag)
        extra = dict(extra or {})
        self._check_batch(inputs, lengths, seq_tag, extra)
        seqs = []
        for i in range(num_seqs):
            sizes = {axis: int(lens[i]) for axis, lens in sorted(lengths.items())}
            data = {DEFAULT_KEY: self._cut(inputs[i], sizes)}
            data.update({key: np.asarray(values[i]) for key, values in extra.items()})
            if len(sizes) > 1:
                data[_SIZES_KEY] = np.array(list(sizes.values()), "int32")
            self._check_labels(seq_tag[i], data)
            seqs.append(data)
        for tag, data in zip(seq_tag, seqs, strict=True):
            if not self._writer.has_formats:
                self._set_formats(data)
            self._writer.append(_tag_text(tag), data)
        if self._swmr:
            self._writer.flush()
            if not self._writer.file.swmr_mode and num_seqs:
                self._writer.file.swmr_mode = True

    def _check_batch(self, inputs: Array, lengths: Mapping[int, Any], seq_tag: Sequence[str], extra: Any) -> None:
        sizes = {"inputs": len(inputs), "seq_len": min(map(len, lengths.values()), default=len(seq_tag))}
        sizes.update({key: len(values) for key, values in extra.items()})
        wrong = {name: size for name, size in sizes.items() if size != len(seq_tag)}
        if wrong:
            raise ValueError(f"{self.filename}: a batch of {counted(len(seq_tag), 'sequence tag')}, but of {wrong}")
        for name, values in {"inputs": inputs, **extra}.items():
            if any(np.asarray(value).dtype.kind == "U" for value in values):
                raise UserError(
                    f"{self.filename}: {name!r} has texts in Unicode, of which HDF has no arrays.\n"
                    f"  Expected numbers, such as labels; or bytes: numpy.char.encode({name}, 'utf8')."
                )
        if inputs.ndim != self.ndim + 1:
            raise ValueError(
                f"{self.filename}: inputs have shape {inputs.shape}, expected batch and {counted(self.ndim, 'axis')}"
            )
        for axis, of_seqs in lengths.items():
            for tag, length in zip(seq_tag, of_seqs, strict=False):
                if not 0 <= length <= inputs.shape[axis + 1]:
                    text = f"a length of {length}, but the batch has {inputs.shape[axis + 1]} in axis {axis + 1}"
                    raise self._wrong_data(text, tag, DEFAULT_KEY)

    def _check_labels(self, tag: str | bytes, data: Mapping[str, Array]) -> None:
        """:raises DataError: if what is described as labels, by a `dim` and no axis but time, is something else"""
        described = {DEFAULT_KEY: (self.dim, self.ndim), **{key: kind[:2] for key, kind in self._extra_type.items()}}
        for key, array in data.items():
            num_labels, ndim = described.get(key, (None, 0))
            if num_labels is None or num_labels <= 1 or ndim != 1 or array.dtype.kind == "S" or not array.size:
                continue
            if array.dtype.kind not in "iub":
                raise self._wrong_data(f"{array.dtype} values, but labels are integers", tag, key)
            wrong = array[(array < 0) | (array >= num_labels)]
            if wrong.size:
                raise self._wrong_data(f"the label {wrong[0]}, but by its dim they are 0 to {num_labels - 1}", tag, key)

    def _wrong_data(self, text: str, tag: str | bytes, key: str) -> DataError:
        return DataError(text, dataset="HDF writer", seq=_tag_text(tag), key=key, file=self.filename)

    def _cut(self, padded: Array, sizes: Mapping[int, int]) -> Array:
        for axis, size in sizes.items():
            padded = padded[(slice(None),) * axis + (slice(0, size),)]
        frames_first = np.moveaxis(padded, list(sizes), range(len(sizes)))
        return frames_first if len(sizes) <= 1 else frames_first.reshape(-1, *frames_first.shape[len(sizes) :])

    def _set_formats(self, example: Mapping[str, Array]) -> None:
        formats = {}
        for key, data in example.items():
            if key == DEFAULT_KEY:
                formats[key] = KeyFormat(self.dim or 1, data.ndim, str(data.dtype))
            elif key in self._extra_type:
                dim, ndim, dtype = self._extra_type[key]
                formats[key] = KeyFormat(dim or 1, max(ndim, 1), dtype)
            else:
                formats[key] = KeyFormat(1, max(data.ndim, 1), str(data.dtype))
        labels = {**self._extra_labels, **({DEFAULT_KEY: self.labels} if self.labels else {})}
        self._writer.set_formats(formats, labels)


class HDFDatasetWriter:
    """Writes a data set to a file."""

    def __init__(self, filename: str) -> None:
        """:param filename: of the HDF file; it must not exist yet"""
        self.filename = filename
        self._writer = HdfFileWriter(filename)
        self.file = self._writer.file

    def close(self) -> None:
        """Completes the file."""
        self._writer.close()

    def discard(self) -> None:
        """Leaves no file, as after an error."""
        self._writer.discard()

    def dump_from_dataset(
        self,
        dataset: Dataset,
        epoch: int = 1,
        start_seq: int = 0,
        end_seq: float = float("inf"),
        use_progress_bar: bool = True,
    ) -> None:
        """
        :param dataset: with the key "data"
        :param epoch: which one to write, in its order
        :param start_seq: first sequence
        :param end_seq: exclusive
        :param use_progress_bar: whether to tell how far it is
        """
        keys = dataset.get_data_keys()
        if DEFAULT_KEY not in keys:
            raise UserError(
                f"{dataset.description}: has no data key 'data', but this layout needs it. It has: {', '.join(keys)}.\n"
                "  Give one of them this name with MetaDataset."
            )
        self._writer.set_formats({key: _format_of(dataset, key) for key in keys}, _labels_of(dataset))
        dataset.init_seq_order(epoch)
        seq_idx = start_seq
        while seq_idx < end_seq and dataset.is_less_than_num_seqs(seq_idx):
            dataset.load_seqs(seq_idx, seq_idx + 1)
            data = {key: _as_numbers(dataset.get_data(seq_idx, key)) for key in keys}
            self._writer.append(dataset.get_tag(seq_idx), data)
            seq_idx += 1
            if use_progress_bar and (seq_idx - start_seq) % 1000 == 0:
                done = dataset.get_complete_frac(seq_idx - 1) or 0.0
                print(f"{self.filename}: {counted(seq_idx - start_seq, 'sequence')}, {done:.0%}", file=log.v3)


def _format_of(dataset: Dataset, key: str) -> KeyFormat:
    dtype = dataset.get_data_dtype(key)
    if dtype in ("string", "str", "bytes"):
        return KeyFormat(256, 1, "uint8")
    return KeyFormat(dataset.get_data_dim(key), max(dataset.get_num_axes(key), 1), dtype)


def _labels_of(dataset: Dataset) -> dict[str, Sequence[str]]:
    return {key: names for key, names in dataset.labels.items() if names and key in dataset.get_data_keys()}


def _as_numbers(data: Array) -> Array:
    """:return: the same, but text as its UTF-8 bytes. An array of words in bytes stays one, as HDF has these"""
    if data.dtype.kind not in "SUO" or (data.dtype.kind == "S" and data.ndim > 0):
        return data
    text = data.item() if data.ndim == 0 else "".join(data.tolist())
    return np.frombuffer(text if isinstance(text, bytes) else text.encode("utf8"), np.uint8)


def _tag_text(tag: str | bytes) -> str:
    return tag.decode("utf8") if isinstance(tag, bytes) else str(tag)
