"""`SprintCacheDataset`: features and alignments from cache archives of RASR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.seq_order import GetSeqLen
from returnn.datasets.util.allophone_labeling import AllophoneLabeling
from returnn.datasets.util.rasr_archive import open_file_archive
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.cache_manager import cf

_ATTRIBUTES_ENDING = ".attribs"


class SprintCacheReader:
    """One data key, from one archive or bundle of archives."""

    def __init__(
        self,
        data_key: str,
        filename: str,
        data_type: str | None = None,
        allophone_labeling: Mapping[str, Any] | None = None,
        use_cache_manager: bool = False,
    ):
        """
        :param data_key: e.g. "data" or "classes"
        :param filename: archive, or with the ending `.bundle` a list of archives
        :param data_type: "feat" or "align"; by default "align" with `allophone_labeling`
        :param allophone_labeling: options of `AllophoneLabeling`
        :param use_cache_manager: read a local copy
        """
        where = f"SprintCacheDataset: data key {data_key!r}"
        self.data_key = data_key
        self.type = data_type or ("align" if allophone_labeling is not None else "feat")
        check_known("data_type", self.type, ("feat", "align"), where=where)
        if (self.type == "align") != (allophone_labeling is not None):
            raise ConfigError(f"{where}: option 'allophone_labeling' is needed for 'align', and only for that.")
        self.filename = filename
        self.sprint_cache = open_file_archive(cf(filename) if use_cache_manager else filename)
        self.allophone_labeling = AllophoneLabeling(**allophone_labeling) if allophone_labeling is not None else None
        if self.allophone_labeling:
            self.sprint_cache.set_allophones(self.allophone_labeling.allophone_file)
        self.content_keys = [name for name in self.sprint_cache.file_list() if not name.endswith(_ATTRIBUTES_ENDING)]
        if not self.content_keys:
            raise ConfigError(f"{where}: there is nothing in the archive {filename!r}.")
        self.num_labels = self.allophone_labeling.num_labels if self.allophone_labeling else None
        self.num_dims = 1 if self.allophone_labeling else 2
        self.dtype = "int32" if self.allophone_labeling else "float32"

    @property
    def dim(self) -> int:
        """Number of labels, or of features."""
        return self.num_labels or int(self.read(self.content_keys[0]).shape[1])

    def read(self, name: str) -> Array:
        """:return: features (frames, dim), or labels (frames,)"""
        if self.type == "feat":
            _, features = self.sprint_cache.read(name, "feat")
            return features  # type: ignore[return-value]
        assert self.allophone_labeling
        label = self.allophone_labeling.get_label_idx
        alignment = self.sprint_cache.read(name, "align")
        return numpy.array([label(allophone, state) for _, allophone, state, _ in alignment], dtype=self.dtype)


class SprintCacheDataset(CorpusDataset):
    """Each data key is an archive. The tags are the names of the entries."""

    SprintCacheReader: ClassVar[type[SprintCacheReader]] = SprintCacheReader

    def __init__(self, data: Mapping[str, Mapping[str, Any]], **kwargs: Any):
        """
        :param data: data key -> options of `SprintCacheReader`, such as `filename`. The order of the sequences is
            that of the first one
        """
        super().__init__(**kwargs)
        if not data:
            raise ConfigError(f"{self.description}: option 'data' is empty.")
        self.data = {key: SprintCacheReader(key, **opts) for key, opts in data.items()}
        for reader in self.data.values():
            for name in reader.sprint_cache.open_files:
                self._watch_file(name)
        first = self.data[DEFAULT_KEY if DEFAULT_KEY in self.data else next(iter(self.data))]
        self.seq_list_original = first.content_keys
        self.num_outputs = {key: (reader.dim, reader.num_dims) for key, reader in self.data.items()}
        self.num_inputs = self.num_outputs[first.data_key][0]
        self._lens: dict[int, int] = {}
        for key, reader in self.data.items():
            missing = next((tag for tag in self.seq_list_original if not reader.sprint_cache.has_entry(tag)), None)
            if missing is not None:
                raise ConfigError(
                    f"{self.description}: data key {key!r}: the sequence {missing!r} of {first.filename!r} "
                    f"is not in {reader.filename!r}."
                )

    @property
    def seq_list_ordered(self) -> list[str]:
        """Tags of this epoch."""
        return [self.seq_list_original[int(i)] for i in self.get_current_seq_order()]

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self.seq_list_original)

    def get_tag(self, sorted_seq_idx: int) -> str:
        return super().get_tag(sorted_seq_idx)

    def get_data_keys(self) -> list[str]:
        return list(self.data)

    def get_target_list(self) -> list[str]:
        return [key for key in self.data if key != DEFAULT_KEY]

    def get_data_dtype(self, key: str) -> str:
        return self.data[key].dtype

    def is_data_sparse(self, key: str) -> bool:
        return self.data[key].num_labels is not None

    def get_dataset_seq_for_name(self, name: str, seq_idx: int = -1) -> DatasetSeq:
        """
        :param name: tag
        :param seq_idx: of the result
        """
        return DatasetSeq(seq_idx, {key: reader.read(name) for key, reader in self.data.items()}, seq_tag=name)

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return self.seq_list_original[corpus_seq_idx]

    def _corpus_file(self, corpus_seq_idx: int) -> str:
        return ", ".join(reader.filename for reader in self.data.values())

    def _read_corpus_seq(self, corpus_seq_idx: int) -> dict[str, Array]:
        return self.get_dataset_seq_for_name(self.seq_list_original[corpus_seq_idx]).features

    def _seq_len_func(self) -> GetSeqLen:
        return self._length

    def _length(self, corpus_seq_idx: int) -> int:
        if corpus_seq_idx not in self._lens:
            reader = next(iter(self.data.values()))
            self._lens[corpus_seq_idx] = len(reader.read(self.seq_list_original[corpus_seq_idx]))
        return self._lens[corpus_seq_idx]
