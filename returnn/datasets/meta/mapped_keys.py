"""For data sets which give data keys of other data sets a name of their own."""

from __future__ import annotations

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import Array


class MappedKeysDataset(CachedDataset2):
    """What is known of a data key comes from the data set that has it. A derived class defines `_source`."""

    _data_dtypes: dict[str, str]  # by key, in place of what the data set says

    def _source(self, key: str) -> tuple[Dataset, str]:
        """:return: the data set that has the data of a key, and the key there"""
        raise NotImplementedError

    def get_data_dtype(self, key: str) -> str:
        if key in self._data_dtypes:
            return self._data_dtypes[key]
        dataset, sub_key = self._source(key)
        return dataset.get_data_dtype(sub_key)

    def get_data_shape(self, key: str) -> list[int | None]:
        dataset, sub_key = self._source(key)
        shape = dataset.get_data_shape(sub_key)
        return [*shape[:-1], self.get_data_dim(key)] if shape and self.window > 1 else shape

    def is_data_sparse(self, key: str) -> bool:
        dataset, sub_key = self._source(key)
        return dataset.is_data_sparse(sub_key)

    def can_serialize_data(self, key: str) -> bool:
        dataset, sub_key = self._source(key)
        return dataset.can_serialize_data(sub_key)

    def serialize_data(self, key: str, data: Array) -> str:
        dataset, sub_key = self._source(key)
        return dataset.serialize_data(sub_key, data)
