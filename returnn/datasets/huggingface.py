"""`HuggingFaceDataset`: tables of the package `datasets`."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from returnn.config import get_global_config
from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import Array
from returnn.datasets.core.seq_order import GetSeqLen, SeqLens
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.file_cache import get_instance
from returnn.util.python.optional_import import import_optional

_FORMAT_OPTIONS = ("dim", "ndim", "shape", "dtype", "sparse", "vocab")
DatasetOpts = Mapping[str, Any] | str | Sequence[str] | Callable[[], Any]


class HuggingFaceDataset(CorpusDataset):
    """Each row of the table is a sequence, each column a data key."""

    def __init__(
        self,
        dataset_opts: DatasetOpts,
        *,
        use_file_cache: bool = False,
        map_func: Callable[[Any], Any] | None = None,
        rename_columns: Mapping[str, str] | None = None,
        cast_columns: Mapping[str, Any] | None = None,
        data_format: Mapping[str, Mapping[str, Any]],
        seq_tag_column: str | None = "id",
        sorting_seq_len_column_data: str | None = None,
        sorting_seq_len_column: str | None = None,
        **kwargs: Any,
    ):
        """
        :param dataset_opts: arguments of `datasets.load_dataset`; or a folder that `save_to_disk` wrote; or Arrow
            files; or a function that returns one of these, or the table
        :param use_file_cache: read local copies of the files; only for a folder or Arrow files
        :param map_func: changes the table first
        :param rename_columns: old -> new name
        :param cast_columns: column (by its new name) -> feature of the package, such as `datasets.Audio(16000)`, or
            the same as a dict, {"_type": "Audio", "sampling_rate": 16000}
        :param data_format: column -> `dim`, `ndim`, `shape`, `dtype`, `sparse`, `vocab` (options of `Vocabulary`; the
            column can then be text). Other columns are not read
        :param seq_tag_column: column of the tags; None: "seq-0", "seq-1", ...
        :param sorting_seq_len_column_data: its length counts to sort by length
        :param sorting_seq_len_column: it has the lengths, to sort by length
        """
        super().__init__(**kwargs)
        self.dataset_opts = dataset_opts
        self.use_file_cache = use_file_cache
        self.map_func = map_func
        self.rename_columns = rename_columns
        self.cast_columns = cast_columns
        self.data_format = {key: self._check_format(key, fmt) for key, fmt in data_format.items()}
        self.seq_tag_column = seq_tag_column
        self.sorting_seq_len_column_data = sorting_seq_len_column_data
        self.sorting_seq_len_column = sorting_seq_len_column
        self.hf_dataset: Any = None
        self.vocabs = {
            key: Vocabulary.create_vocab(**fmt["vocab"]) for key, fmt in self.data_format.items() if "vocab" in fmt
        }
        self.labels = {key: vocab.labels for key, vocab in self.vocabs.items()}
        self.num_outputs = {key: (self._dim(key), len(self._shape(key)) + 1) for key in self.data_format}
        self._lens: SeqLens | None = None

    def initialize(self) -> None:
        super().initialize()
        table = self._load(self.dataset_opts() if callable(self.dataset_opts) else self.dataset_opts)
        if self.map_func:
            table = self.map_func(table)
        if isinstance(table, Mapping):
            raise ConfigError(
                f"{self.description}: option 'dataset_opts' gives several tables: {', '.join(map(str, table))}.\n"
                "  Choose one by 'split'."
            )
        if self.rename_columns:
            table = table.rename_columns(dict(self.rename_columns))
        lens = (self.sorting_seq_len_column, self.sorting_seq_len_column_data)
        needed = [*self.data_format, *(self.cast_columns or ()), self.seq_tag_column, *lens]
        for column in filter(None, needed):
            check_known("column", column, table.column_names, where=self.description)
        for column, feature in (self.cast_columns or {}).items():
            table = self._cast(table, column, feature)
        self.hf_dataset = table.with_format("numpy")

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self.hf_dataset)

    def get_tag(self, sorted_seq_idx: int) -> str:
        return super().get_tag(sorted_seq_idx)

    def get_corpus_seq_idx(self, sorted_seq_idx: int) -> int:
        return super().get_corpus_seq_idx(sorted_seq_idx)

    def get_data_keys(self) -> list[str]:
        return list(self.data_format)

    def get_target_list(self) -> list[str]:
        return [key for key in self.data_format if key != "data"]

    def get_data_dtype(self, key: str) -> str:
        default = "int32" if self.is_data_sparse(key) else "float32"
        return str(self.data_format[key].get("dtype", default))

    def is_data_sparse(self, key: str) -> bool:
        return bool(self.data_format[key].get("sparse", key in self.vocabs))

    def get_data_shape(self, key: str) -> list[int | None]:
        return self._shape(key)

    def _check_format(self, key: str, fmt: Mapping[str, Any]) -> dict[str, Any]:
        for option in fmt:
            check_known("option", option, _FORMAT_OPTIONS, where=f"{self.description}: option 'data_format': {key!r}")
        return dict(fmt)

    def _shape(self, key: str) -> list[int | None]:
        """:return: without the first axis, time"""
        fmt = self.data_format[key]
        if "shape" in fmt:
            return list(fmt["shape"][1:])
        dim = [] if self.is_data_sparse(key) or fmt.get("dim") is None else [fmt["dim"]]
        return [None] * (fmt.get("ndim", len(dim) + 1) - 1 - len(dim)) + dim

    def _dim(self, key: str) -> int:
        if key in self.vocabs:
            return self.vocabs[key].num_labels
        fmt = self.data_format[key]
        return int(fmt.get("dim") or (self._shape(key) or [1])[-1] or 1)

    def get_num_axes(self, key: str) -> int:
        fmt = self.data_format[key]
        return 0 if list(fmt.get("shape", [None])) == [] or fmt.get("ndim") == 0 else len(self._shape(key)) + 1

    def _cast(self, table: Any, column: str, feature: Any) -> Any:
        try:
            return table.cast_column(column, _feature(feature))
        except (TypeError, ValueError, KeyError) as exc:
            raise ConfigError(
                f"{self.description}: option 'cast_columns': {column!r} cannot become {feature!r}: {exc}"
            ) from exc

    def _load(self, opts: Any) -> Any:
        is_folder_or_files = isinstance(opts, str | list | tuple)
        if self.use_file_cache and not is_folder_or_files:
            raise ConfigError(
                f"{self.description}: option 'use_file_cache' is possible for a folder or Arrow files alone."
            )
        if hasattr(opts, "column_names"):
            return opts
        datasets = import_optional("datasets", needed_for="HuggingFaceDataset")
        if not is_folder_or_files:
            return datasets.load_dataset(**opts)
        files = self._arrow_files(opts)
        cache = get_instance(get_global_config(return_empty_if_none=True))
        local = [cache.get_file(name) if self.use_file_cache else name for name in files]
        for name in local:
            self._watch_file(name)
        return datasets.concatenate_datasets([datasets.Dataset.from_file(name) for name in local])

    def _arrow_files(self, opts: str | Sequence[str]) -> list[str]:
        if not isinstance(opts, str):
            return list(opts)
        return get_arrow_shard_files_from_hf_dataset_dir(opts) if os.path.isdir(opts) else [opts]

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        if self.seq_tag_column is None:
            return f"seq-{corpus_seq_idx}"
        return str(self.hf_dataset[corpus_seq_idx][self.seq_tag_column])

    def get_all_tags(self) -> list[str]:
        if self.seq_tag_column is None:
            return super().get_all_tags()
        return [str(tag) for tag in self.hf_dataset[self.seq_tag_column]]

    def _seq_len_func(self) -> GetSeqLen | None:
        if self.sorting_seq_len_column is None and self.sorting_seq_len_column_data is None:
            return None
        if self._lens is None:
            self._lens = SeqLens(self._all_lens)
        return self._lens

    def _all_lens(self) -> Array:
        if self.sorting_seq_len_column is not None:
            return numpy.asarray(self.hf_dataset[self.sorting_seq_len_column], dtype="int64")
        return numpy.array([len(value) for value in self.hf_dataset[self.sorting_seq_len_column_data]], dtype="int64")

    def _seed_random(self, seed: int) -> None:
        for vocab in self.vocabs.values():
            vocab.set_random_seed(seed)

    def _read_corpus_seq(self, corpus_seq_idx: int) -> dict[str, Array]:
        row = self.hf_dataset[corpus_seq_idx]
        return {key: self._to_array(key, row[key]) for key in self.data_format}

    def _to_array(self, key: str, value: Any) -> Array:
        if isinstance(value, Mapping) and "array" in value:  # decoded audio
            value = value["array"]
        dtype = self.get_data_dtype(key)
        is_text = isinstance(value, str) or (isinstance(value, numpy.ndarray) and value.dtype.kind in "US")
        if is_text and key in self.vocabs:
            return numpy.array(self.vocabs[key].get_seq(str(value)), dtype=dtype)
        if dtype == "string":
            return numpy.array(str(value))
        try:
            array = numpy.asarray(value, dtype=dtype)
        except (ValueError, TypeError) as exc:
            raise UserError(f"data key {key!r}: {repr(value)[:60]} is no {dtype} array: {exc}") from exc
        wants_feature_axis = array.ndim == 1 and self._shape(key) == [1]
        return array[:, None] if wants_feature_axis else array


def get_arrow_shard_files_from_hf_dataset_dir(hf_data_dir: str) -> list[str]:
    """
    :param hf_data_dir: folder that `save_to_disk` wrote
    :return: its Arrow files, in their order
    :raises ConfigError: if there are none
    """
    state_file = os.path.join(hf_data_dir, "state.json")
    if os.path.exists(state_file):
        with open(state_file, encoding="utf-8") as file:
            names = [entry["filename"] for entry in json.load(file)["_data_files"]]
        files = [os.path.join(hf_data_dir, name) for name in names]
    else:
        files = sorted(glob.glob(os.path.join(glob.escape(hf_data_dir), "*.arrow")))
    if not files:
        raise ConfigError(f"HuggingFaceDataset: there are no Arrow files in {hf_data_dir!r}.")
    return files


def _feature(feature: Any) -> Any:
    """:return: e.g. of {"_type": "Audio", "sampling_rate": 16000}"""
    if not isinstance(feature, Mapping):
        return feature
    if "_type" not in feature:
        raise ValueError("there is no '_type' such as 'Audio'")
    features = import_optional("datasets.features", needed_for="the option 'cast_columns' of HuggingFaceDataset")
    return features.features.generate_from_dict(dict(feature))
