"""Data sets in the manner of PyTorch: an object with a length, and sequences by their index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from returnn.datasets.core.corpus_dataset import CorpusDataset
from returnn.datasets.core.data_dims import convert_data_dims, shape_for_dims
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.seq_order import GetSeqLen, SeqOrder
from returnn.util.errors import ConfigError


class MapDatasetBase:
    """
    To be derived in a config. `__getitem__` gives the data of one sequence, a dict from data key to array.

    The data set is then `{"class": "MapDatasetWrapper", "map_dataset": MyData}`.
    """

    def __init__(self, data_types: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """:param data_types: data key -> options as in `extern_data` (`dim`, `sparse`, `shape`, `dtype`, `dims`)"""
        self.data_types = dict(data_types or {})

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}: __len__ has to be defined")

    def __getitem__(self, seq_idx: int) -> dict[str, Array]:
        raise NotImplementedError(f"{type(self).__name__}: __getitem__ has to be defined")

    def get_seq_len(self, seq_idx: int) -> int:
        """
        :return: about how many frames a sequence has; needed by orders such as "sorted"
        :raises NotImplementedError: if that is not known
        """
        raise NotImplementedError(f"{type(self).__name__}: get_seq_len is not defined")

    def get_seq_tag(self, seq_idx: int) -> str:
        """:return: tag of a sequence"""
        return f"seq-{seq_idx}"

    def get_seq_order(self, epoch: int | None = None) -> Sequence[int]:
        """
        :return: the sequences of an epoch, if the order is to be another one than by the options
        :raises NotImplementedError: if the options decide about it
        """
        raise NotImplementedError(f"{type(self).__name__}: get_seq_order is not defined")


class FromListDataset(MapDatasetBase):
    """The sequences are in a list."""

    def __init__(self, data_list: Sequence[dict[str, Array]], sort_data_key: str | None = None, **kwargs: Any) -> None:
        """
        :param data_list: of each sequence, a dict from data key to array
        :param sort_data_key: whose length counts for the order
        """
        super().__init__(**kwargs)
        self._data_list = data_list
        self._sort_data_key = sort_data_key

    def __len__(self) -> int:
        return len(self._data_list)

    def __getitem__(self, seq_idx: int) -> dict[str, Array]:
        return self._data_list[seq_idx]

    def get_seq_len(self, seq_idx: int) -> int:
        if self._sort_data_key is None:
            return super().get_seq_len(seq_idx)
        return len(self._data_list[seq_idx][self._sort_data_key])


class MapDatasetWrapper(CorpusDataset):
    """A data set from a `MapDatasetBase`."""

    def __init__(self, map_dataset: MapDatasetBase | Callable[[], MapDatasetBase], **kwargs: Any) -> None:
        """:param map_dataset: the object, or a function (or class) that makes it"""
        super().__init__(**kwargs)
        self._map_dataset = map_dataset if isinstance(map_dataset, MapDatasetBase) else map_dataset()
        if not isinstance(self._map_dataset, MapDatasetBase):
            raise ConfigError(
                f"{self.description}: option 'map_dataset' gives a {type(self._map_dataset).__name__},"
                " which is not derived from MapDatasetBase."
            )
        self._types = {key: shape_for_dims(options) for key, options in self._map_dataset.data_types.items()}
        self.num_outputs = convert_data_dims(self._types)
        self.num_inputs = self.num_outputs[DEFAULT_KEY][0] if DEFAULT_KEY in self.num_outputs else 0

    @property
    def map_dataset(self) -> MapDatasetBase:
        """The object."""
        return self._map_dataset

    @property
    def num_seqs(self) -> int:
        return len(self._map_dataset) if self._num_seqs is None else self._num_seqs

    def get_total_num_seqs(self, *, fast: bool = False) -> int:
        return len(self._map_dataset)

    def _seq_len_func(self) -> GetSeqLen | None:
        try:
            if len(self._map_dataset):
                self._map_dataset.get_seq_len(0)
        except NotImplementedError:
            return None
        return self._map_dataset.get_seq_len

    def _order_of_epoch(self, epoch: int) -> SeqOrder:
        try:
            return self._map_dataset.get_seq_order(epoch=epoch)
        except NotImplementedError:
            return super()._order_of_epoch(epoch)

    def _corpus_tag(self, corpus_seq_idx: int) -> str:
        return self._map_dataset.get_seq_tag(corpus_seq_idx)

    def _read_corpus_seq(self, corpus_seq_idx: int) -> Mapping[str, Array]:
        return self._map_dataset[corpus_seq_idx]

    def get_tag(self, sorted_seq_idx: int) -> str:
        return super().get_tag(sorted_seq_idx)

    def get_corpus_seq_idx(self, sorted_seq_idx: int) -> int:
        return super().get_corpus_seq_idx(sorted_seq_idx)

    def get_data_keys(self) -> list[str]:
        return list(self._types)

    def get_data_dim(self, key: str) -> int:
        return self.num_outputs[key][0] or 1

    def get_data_dtype(self, key: str) -> str:
        return str(self._types[key].get("dtype", super().get_data_dtype(key)))

    def is_data_sparse(self, key: str) -> bool:
        options = self._types[key]
        return bool(options.get("sparse", options.get("sparse_dim") is not None))

    def get_data_shape(self, key: str) -> list[int | None]:
        if "shape" in self._types[key]:
            return list(self._types[key]["shape"][1:])
        return super().get_data_shape(key)
