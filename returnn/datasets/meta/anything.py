"""`AnythingDataset`: any sequence that is asked for, all of zeros. For a data key whose content does not matter."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array
from returnn.datasets.core.seq_order import SeqOrder
from returnn.util.numbers.numbers_dict import NumbersDict


class AnythingDataset(Dataset):
    """Has every tag, and as many sequences as are asked for. Each has one frame of zeros per data key."""

    _random_access = True

    def __init__(self, data_keys: Mapping[str, Mapping[str, Any]], **kwargs: Any) -> None:
        """:param data_keys: data key -> options as in `extern_data`"""
        super().__init__(**kwargs)
        self._options = {key: dict(options) for key, options in data_keys.items()}
        self._seq_list: list[str] | None = None
        self._seq_order: SeqOrder | None = None
        self.num_outputs = {
            key: (options.get("dim") or 1, self.get_num_axes(key)) for key, options in data_keys.items()
        }
        self.num_inputs = self.num_outputs[DEFAULT_KEY][0] if DEFAULT_KEY in self.num_outputs else 0

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        super().init_seq_order(epoch=epoch, seq_list=seq_list, seq_order=seq_order)
        self._seq_list = None if seq_list is None else list(seq_list)
        self._seq_order = seq_order
        return True

    @property
    def num_seqs(self) -> int:
        """As many as `init_seq_order` was given, otherwise as many as a machine can count."""
        order = self._seq_list if self._seq_list is not None else self._seq_order
        return sys.maxsize if order is None else len(order)

    def is_less_than_num_seqs(self, n: int) -> bool:
        return n < self.num_seqs

    def have_seqs(self) -> bool:
        return True

    def supports_seq_order_sorting(self) -> bool:
        return True

    def get_estimated_seq_length(self, seq_idx: int) -> int:
        return 1

    def get_current_seq_order(self) -> SeqOrder:
        return range(self.num_seqs) if self._seq_order is None else self._seq_order

    def get_tag(self, sorted_seq_idx: int) -> str:
        if self._seq_list is not None:
            return self._seq_list[sorted_seq_idx]
        return f"seq-{sorted_seq_idx if self._seq_order is None else int(self._seq_order[sorted_seq_idx])}"

    def get_seq_length(self, sorted_seq_idx: int) -> NumbersDict:
        return NumbersDict(dict.fromkeys(self._options, 1))

    def is_cached(self, start: int, end: int) -> bool:
        return True

    def get_data(self, seq_idx: int, key: str) -> Array:
        shape = [1] * min(self.get_num_axes(key), 1) + [size or 1 for size in self.get_data_shape(key)]
        return np.zeros(shape, self.get_data_dtype(key))

    def get_input_data(self, seq_idx: int) -> Array:
        return self.get_data(seq_idx, DEFAULT_KEY)

    def get_targets(self, target: str, seq_idx: int) -> Array:
        return self.get_data(seq_idx, target)

    def get_data_keys(self) -> list[str]:
        return list(self._options)

    def get_target_list(self) -> list[str]:
        return [key for key in self._options if key != DEFAULT_KEY]

    def get_data_dim(self, key: str) -> int:
        return self.num_outputs[key][0]

    def get_data_dtype(self, key: str) -> str:
        return str(self._options[key].get("dtype", super().get_data_dtype(key)))

    def _shape(self, key: str) -> tuple[int | None, ...]:
        options = self._options[key]
        default = (None,) if options.get("sparse") else (None, options.get("dim"))
        return tuple(options.get("shape", default))

    def get_num_axes(self, key: str) -> int:
        return len(self._shape(key))

    def get_data_shape(self, data_key: str) -> list[int | None]:
        return list(self._shape(data_key)[1:])

    def is_data_sparse(self, key: str) -> bool:
        return bool(self._options[key].get("sparse"))
