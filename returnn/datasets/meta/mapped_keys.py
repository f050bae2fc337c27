"""For data sets which give data keys of other data sets a name of their own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.data_check import as_dtype
from returnn.datasets.core.data_dims import DataDim, convert_data_dims
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import Array
from returnn.log import log
from returnn.util.errors import ConfigError, nearest_hint


class MappedKeysDataset(CachedDataset2):
    """What is known of a data key comes from the data set that has it. A derived class defines `_source`."""

    _data_dtypes: dict[str, str]  # by key, to convert the data to, in place of what the data set says
    data_keys: list[str]

    def _take_dtypes(self, data_dtypes: Mapping[str, str] | None) -> None:
        """:param data_dtypes: the option"""
        self._data_dtypes = dict(data_dtypes or {})
        self._warn_of_other_keys("data_dtypes", self._data_dtypes)
        for key, dtype in self._data_dtypes.items():
            try:
                np.dtype("U" if dtype == "string" else dtype)
            except TypeError as exc:
                raise ConfigError(
                    f"{self.description}: option 'data_dtypes': {key!r}: {dtype!r} is no dtype of numpy."
                ) from exc

    def _warn_of_other_keys(self, option: str, given: Mapping[str, object]) -> None:
        for key in given:
            if key not in self.data_keys:
                hint = nearest_hint(key, self.data_keys)
                log.print_warning(f"{self.description}: option {option!r}: there is no data key {key!r}. {hint}")

    def _check_dim(self, key: str, data_dims: Mapping[str, DataDim], found: tuple[int, int]) -> None:
        """
        :param key: of the data
        :param data_dims: the option, which may have the key
        :param found: (dim, ndim) of the data
        """
        if key not in data_dims:
            return
        dim, ndim = convert_data_dims({key: data_dims[key]})[key]
        is_other_kind = not isinstance(data_dims[key], int) and (ndim >= 2) != (found[1] >= 2)
        if dim not in (found[0], None) or is_other_kind:
            raise ConfigError(
                f"{self.description}: option 'data_dims': {key!r} has {(dim, ndim)}, but the data has {found}."
            )

    def _converted(self, key: str, data: Array, seq_tag: str) -> Array:
        """:return: of the dtype that the option `data_dtypes` has for the key"""
        if key not in self._data_dtypes:
            return data
        return as_dtype(data, self._data_dtypes[key], dataset=self.description, seq=seq_tag, key=key)

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
