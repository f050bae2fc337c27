"""`HDFDataset`: sequences from HDF files, see `hdf_file` for their layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from returnn.datasets.bundle_file import BundleFile
from returnn.datasets.cached import CachedDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import IntArray
from returnn.datasets.hdf.hdf_file import HdfFile
from returnn.datasets.util.tag_index import TagArray, TagIndex
from returnn.util.errors import ConfigError
from returnn.util.files.cache_manager import cf
from returnn.util.numbers.numbers_dict import NumbersDict
from returnn.util.texts.counted import counted

_MISSING_TAG_HINT = "The data sets that are combined need the same sequence tags."


class HDFDataset(CachedDataset):
    """The sequences of one or more HDF files after each other. All files have the same data keys and dims."""

    def __init__(
        self, files: str | Sequence[str] | None = None, use_cache_manager: bool = False, **kwargs: Any
    ) -> None:
        """
        :param files: names of HDF files, or of bundle files (`.bundle`), which list HDF files
        :param use_cache_manager: reads local copies of the files, made by the program `cf`
        """
        super().__init__(**kwargs)
        self._use_cache_manager = use_cache_manager
        self.files: list[str] = []
        self.file_start: list[int] = [0]
        self._hdf_files: list[HdfFile] = []
        self._tag_index: TagIndex | None = None
        self.data_dtype: dict[str, str] = {}
        self.data_sparse: dict[str, bool] = {}
        self.target_keys: list[str] = []
        for filename in [files] if isinstance(files, str) else files or []:
            self.add_file(filename)

    @property
    def h5_files(self) -> list[Any]:
        """The open files."""
        return [file.h5_file for file in self._hdf_files]

    def add_file(self, filename: str) -> None:
        """
        :param filename: of an HDF file, or of a bundle file
        :raises DataError: if it cannot be read, or does not go with the files before
        """
        if filename.endswith(".bundle"):
            for path in BundleFile(filename).dataset_file_paths:
                self.add_file(path)
            return
        file = HdfFile(cf(filename) if self._use_cache_manager else filename, where=self.description)
        if not self._hdf_files:
            self._take_keys(file)
        self._check_same_keys(file)
        self.files.append(filename)
        self._hdf_files.append(file)
        self._watched_files.add(file.watched)
        self.file_start.append(self.file_start[-1] + file.num_seqs)
        self._tag_index = None

    def _take_keys(self, file: HdfFile) -> None:
        self.num_outputs = dict(file.dims)
        self.num_inputs = file.dims[DEFAULT_KEY][0]
        self.labels = file.labels
        self.data_dtype = file.dtypes
        self.data_sparse = {key: ndim == 1 and _is_integer(file.dtypes[key]) for key, (_, ndim) in file.dims.items()}
        self.target_keys = [key for key in file.data_keys if key != DEFAULT_KEY]

    def _check_same_keys(self, file: HdfFile) -> None:
        if file.dims == self.num_outputs:
            return
        keys = {*file.dims, *self.num_outputs}
        key = min(key for key in keys if file.dims.get(key) != self.num_outputs.get(key))
        here, before = _describe_dim(file.dims.get(key)), _describe_dim(self.num_outputs.get(key))
        raise DataError(
            f"is {here}, but {before} in {self.files[0]}",
            dataset=self.description,
            key=key,
            file=file.filename,
            hint="All files of one data set need the same data keys and dims.",
        )

    def initialize(self) -> None:
        if not self._hdf_files:
            raise ConfigError(f"{self.description}: option 'files' is missing or empty.")
        if not self.get_total_num_seqs():
            raise DataError("there are no sequences", dataset=self.description, file=", ".join(self.files[:3]))
        super().initialize()

    # Corpus.

    def _file_of(self, corpus_seq_idx: int) -> tuple[HdfFile, int]:
        file_idx = int(np.searchsorted(self.file_start, corpus_seq_idx, side="right")) - 1
        return self._hdf_files[file_idx], corpus_seq_idx - self.file_start[file_idx]

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return self.file_start[-1]

    def get_all_tags(self) -> list[str]:
        return list(self._iter_corpus_tags())

    def _iter_corpus_tags(self) -> Iterable[str]:
        for file in self._hdf_files:
            for block in file.iter_tag_blocks():
                yield from (tag.decode("utf8") for tag in block.tolist())

    def _get_all_seq_lens(self) -> IntArray:
        return np.concatenate([file.get_all_seq_lens() for file in self._hdf_files])

    def _get_corpus_tag(self, corpus_seq_idx: int) -> str:
        file, seq_idx = self._file_of(corpus_seq_idx)
        return file.get_tag(seq_idx)

    def _get_corpus_seq_length(self, corpus_seq_idx: int) -> NumbersDict:
        file, seq_idx = self._file_of(corpus_seq_idx)
        return file.get_seq_length(seq_idx)

    def tags_of_seqs(self, corpus_seq_indices: IntArray) -> TagArray:
        """:return: as UTF-8"""
        file_indices = np.searchsorted(self.file_start, corpus_seq_indices, side="right") - 1
        of_files = [np.flatnonzero(file_indices == i) for i in range(len(self._hdf_files))]
        pieces = [
            file.get_tags(corpus_seq_indices[in_file] - start)
            for file, start, in_file in zip(self._hdf_files, self.file_start, of_files, strict=False)
            if len(in_file)
        ]
        if len(pieces) == 1:
            return pieces[0]
        tags = np.zeros(len(corpus_seq_indices), max((piece.dtype for piece in pieces), default=np.dtype("S1")))
        for piece, in_file in zip(pieces, filter(len, of_files), strict=True):
            tags[in_file] = piece
        return tags

    def get_tags_of_epoch(self) -> list[str]:
        tags = self.tags_of_seqs(np.asarray(self.get_current_seq_order(), dtype=np.int64))
        return [tag.decode("utf8") for tag in tags.tolist()]

    def _get_tag_index(self) -> TagIndex:
        if self._tag_index is None:
            blocks = (block for file in self._hdf_files for block in file.iter_tag_blocks())
            self._tag_index = TagIndex(blocks, self._get_corpus_tag)
        return self._tag_index

    def _find_tags(self, tags: Sequence[str]) -> IntArray:
        return self.seqs_with_tags(np.array([tag.encode("utf8") for tag in tags], dtype="S"))

    def seqs_with_tags(self, tags: TagArray, *, guess: IntArray | None = None) -> IntArray:
        """
        :param tags: as UTF-8
        :param guess: where they may be; a sequence that is there with its tag is the one
        :return: corpus indices
        :raises DataError: if a tag is not there, or not only once
        """
        found, wrong = np.zeros(len(tags), np.int64), np.arange(len(tags))
        if guess is not None and len(tags):
            found, wrong = self._look_at(tags, guess)
        if len(wrong):
            found[wrong], not_there = self._look_at(tags[wrong], self._get_tag_index().guess(tags[wrong]))
            for i in wrong[not_there]:
                found[i] = self._find_tag(tags[i].decode("utf8"))
        return found

    def _look_at(self, tags: TagArray, places: IntArray) -> tuple[IntArray, IntArray]:
        """:return: the places, and which of the tags are not there"""
        is_inside = (places >= 0) & (places < self.get_total_num_seqs())
        found = np.where(is_inside, places, 0)
        return found, np.flatnonzero(~is_inside | (self.tags_of_seqs(found) != tags))

    def _find_tag(self, tag: str) -> int:
        found = self._get_tag_index().find(tag)
        if len(found) == 1:
            return found[0]
        if not found:
            raise DataError(
                "is missing",
                dataset=self.description,
                seq=tag,
                file=", ".join(self.files[:3]) + (", ..." if len(self.files) > 3 else ""),
                hint=f"The first tag here is {self._get_corpus_tag(0)!r}. {_MISSING_TAG_HINT}",
            )
        files = sorted({self._file_of(i)[0].filename for i in found})
        raise DataError(
            f"is there {len(found)} times, so it cannot be found by its tag",
            dataset=self.description,
            seq=tag,
            file=", ".join(files[:3]),
        )

    # Data.

    def _read_seq(self, corpus_seq_idx: int) -> DatasetSeq:
        file, seq_idx = self._file_of(corpus_seq_idx)
        features = {key: file.read(seq_idx, key) for key in file.data_keys}
        return DatasetSeq(corpus_seq_idx, features, seq_tag=file.get_tag(seq_idx))

    def have_get_corpus_seq(self) -> bool:
        return True

    def get_corpus_seq(self, corpus_seq_idx: int) -> DatasetSeq:
        with self.lock:
            return self._read_cached(corpus_seq_idx)

    def get_data_by_seq_tag(self, seq_tag: str, key: str) -> Array:
        """:return: data of any sequence. Works without `init_seq_order`."""
        with self.lock:
            return self._read_cached(self._find_tag(seq_tag)).get_data(key)

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        return int(self._get_corpus_seq_length(seq_idx)[DEFAULT_KEY])

    def get_times(self, sorted_seq_idx: int) -> Array | None:
        file, seq_idx = self._file_of(self.get_corpus_seq_idx(sorted_seq_idx))
        return file.read_times(seq_idx)

    def get_data_keys(self) -> list[str]:
        return [DEFAULT_KEY, *self.target_keys]

    def get_target_list(self) -> list[str]:
        return self.target_keys

    def get_data_dtype(self, key: str) -> str:
        return self.data_dtype[key]

    def is_data_sparse(self, key: str) -> bool:
        return self.data_sparse[key]

    def _describe_source(self, seq: DatasetSeq) -> str | None:
        file, seq_idx = self._file_of(self.get_corpus_seq_idx(seq.seq_idx))
        return f"{file.filename}, sequence {seq_idx} of it"


def _is_integer(dtype: str) -> bool:
    return np.dtype(dtype).kind in "iu"


def _describe_dim(dim: tuple[int, int] | None) -> str:
    return "not there" if dim is None else f"of dim {dim[0]} with {counted(dim[1], 'axis')}"
