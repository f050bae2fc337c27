"""Data without a meaning, to try out networks: it counts up, or is random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from returnn.datasets.core.data_dims import DataDim
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.generating.base import GeneratingDataset
from returnn.util.errors import ConfigError, check_known

_DEFAULT_LENS = (10, 20)  # least and most


class DummyDataset(GeneratingDataset):
    """Features and labels that count up from the index of the sequence."""

    seq_len: Any

    def __init__(
        self,
        input_dim: int | None,
        output_dim: int | Mapping[str, DataDim],
        num_seqs: int,
        seq_len: int = 2,
        input_max_value: float = 10.0,
        input_shift: float | None = None,
        input_scale: float | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param input_dim: number of features
        :param output_dim: number of labels
        :param num_seqs: in each epoch
        :param seq_len: frames of each sequence
        :param input_max_value: the features count up to here (exclusive), and start again at 0
        :param input_shift: added to the features; by default, such that they are centered
        :param input_scale: factor of the features after that; by default, such that they have a range of 1
        """
        super().__init__(input_dim=input_dim, output_dim=output_dim, num_seqs=num_seqs, **kwargs)
        self.seq_len = seq_len
        if input_max_value <= 0:
            raise ConfigError(f"{self.description}: option 'input_max_value': {input_max_value} is not positive.")
        self.input_max_value = input_max_value
        self.input_shift = -input_max_value / 2 if input_shift is None else input_shift
        self.input_scale = 1 / input_max_value if input_scale is None else input_scale

    def _features(self, start: int, num_frames: int, dim: int) -> Array:
        numbers = np.arange(start, start + num_frames * dim) % self.input_max_value
        return ((numbers + self.input_shift) * self.input_scale).reshape(num_frames, dim).astype(np.float32)

    def _labels(self, start: int, num_frames: int, dim: int) -> Array:
        return (np.arange(start, start + num_frames) % dim).astype(np.int32)

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        return self._counting_seq(seq_idx, self.seq_len, self.seq_len)

    def _counting_seq(self, seq_idx: int, num_frames: int, num_labels: int) -> DatasetSeq:
        features = self._features(seq_idx, num_frames, self.num_inputs)
        labels = self._labels(seq_idx + features.size, num_labels, self.num_outputs["classes"][0])
        return DatasetSeq(seq_idx, features, targets=labels)


class DummyDatasetMultipleSequenceLength(DummyDataset):
    """As DummyDataset, with different lengths of "data" and "classes"."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        num_seqs: int,
        seq_len: Mapping[str, int] | None = None,
        input_max_value: float = 10.0,
        input_shift: float | None = None,
        input_scale: float | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param input_dim: number of features
        :param output_dim: number of labels
        :param num_seqs: in each epoch
        :param seq_len: frames by data key; by default, 10 of "data" and 20 of "classes"
        :param input_max_value: as in DummyDataset
        :param input_shift: as in DummyDataset
        :param input_scale: as in DummyDataset
        """
        super().__init__(
            input_dim=input_dim,
            output_dim=output_dim,
            num_seqs=num_seqs,
            input_max_value=input_max_value,
            input_shift=input_shift,
            input_scale=input_scale,
            **kwargs,
        )
        self.seq_len = {DEFAULT_KEY: 10, "classes": 20} if seq_len is None else dict(seq_len)

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        return self._counting_seq(seq_idx, self.seq_len[DEFAULT_KEY], self.seq_len["classes"])


class DummyDatasetMultipleDataKeys(DummyDataset):
    """As DummyDataset, with features under several data keys."""

    fixed_options = ("input_dim",)

    def __init__(
        self,
        output_dim: int | Mapping[str, int],
        num_seqs: int,
        seq_len: int | Mapping[str, int] | None = None,
        input_max_value: float = 10.0,
        input_shift: float | None = None,
        input_scale: float | None = None,
        data_keys: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param output_dim: number of features, one number for all data keys, or by key
        :param num_seqs: in each epoch
        :param seq_len: frames, one number for all data keys, or by key; 10 by default
        :param input_max_value: as in DummyDataset
        :param input_shift: as in DummyDataset
        :param input_scale: as in DummyDataset
        :param data_keys: by default, "data" and "classes"
        """
        keys = ["data", "classes"] if data_keys is None else list(data_keys)
        dims = dict.fromkeys(keys, output_dim) if isinstance(output_dim, int) else dict(output_dim)
        seq_len = 10 if seq_len is None else seq_len
        lens = dict.fromkeys(keys, seq_len) if isinstance(seq_len, int) else dict(seq_len)
        super().__init__(
            input_dim=None,
            output_dim={key: (dims[key], 2) for key in keys},
            num_seqs=num_seqs,
            input_max_value=input_max_value,
            input_shift=input_shift,
            input_scale=input_scale,
            **kwargs,
        )
        self.data_keys = keys
        self.seq_len = lens

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        features = {}
        start = seq_idx
        for key in self.data_keys:
            features[key] = self._features(start, self.seq_len[key], self.num_outputs[key][0])
            start += features[key].size
        return DatasetSeq(seq_idx, features)


class DummyGenericDataset(GeneratingDataset):
    """Random data of any kind, described as in `extern_data`."""

    fixed_options = ("input_dim", "output_dim")

    def __init__(
        self,
        data_template: Mapping[str, Any],
        num_seqs: int,
        *,
        seq_lens: int | tuple[int, int] | Mapping[str, int | tuple[int, int]] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param data_template: by data key, options as in `extern_data`, or a template
        :param num_seqs: in each epoch
        :param seq_lens: number of frames, or (least, most), also by data key; by default, between 10 and 20
        """
        self.data_template = {key: _template_options(template) for key, template in data_template.items()}
        dims = {key: (options["dim"], len(options["shape"])) for key, options in self.data_template.items()}
        super().__init__(input_dim=None, output_dim=dims, num_seqs=num_seqs, **kwargs)
        self.seq_lens = _DEFAULT_LENS if seq_lens is None else seq_lens
        where = f"{self.description}: option 'seq_lens'"
        for key in self.seq_lens if isinstance(self.seq_lens, Mapping) else ():
            check_known("data key", key, self.data_template, where=where)
        self._lens = {key: self._least_and_most(key, where) for key in self.data_template}

    def get_data_keys(self) -> list[str]:
        return list(self.data_template)

    def get_target_list(self) -> list[str]:
        return [key for key in self.data_template if key != DEFAULT_KEY]

    def get_data_dtype(self, key: str) -> str:
        return str(self.data_template[key]["dtype"])

    def is_data_sparse(self, key: str) -> bool:
        return bool(self.data_template[key]["sparse"])

    def get_data_shape(self, key: str) -> list[int | None]:
        return list(self.data_template[key]["shape"][1:])

    def _least_and_most(self, key: str, where: str) -> tuple[int, int]:
        lens = self.seq_lens.get(key, _DEFAULT_LENS) if isinstance(self.seq_lens, Mapping) else self.seq_lens
        try:
            low, high = (lens, lens) if isinstance(lens, int) else map(int, lens)
        except (TypeError, ValueError):
            low, high = 1, 0
        if not 0 <= low <= high:
            raise ConfigError(f"{where}: {lens!r} is no length, and no pair of the least and the most one.")
        return low, high

    def _random_len(self, key: str) -> int:
        low, high = self._lens[key]
        return int(self.random.randint(low, high + 1))

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        return DatasetSeq(seq_idx, {key: self._random_data(key) for key in self.data_template})

    def _random_data(self, key: str) -> Array:
        options = self.data_template[key]
        shape = [self._random_len(key) if size is None else size for size in options["shape"]]
        dtype = np.dtype(options["dtype"])
        if dtype.kind == "f":
            return np.asarray(self.random.normal(size=shape), dtype=dtype)
        return np.asarray(self.random.randint(0, options["dim"] or 2, size=shape), dtype=dtype)


def _template_options(template: Any) -> dict[str, Any]:
    """:return: shape of a sequence (with time), dim, sparse, dtype"""
    options = dict(template) if isinstance(template, Mapping) else _options_of_template(template)
    sparse = bool(options.get("sparse", options.get("sparse_dim") is not None))
    dim = getattr(options.get("sparse_dim"), "dimension", options.get("dim"))
    default_shape = (None,) if sparse else (None, dim)
    shape = tuple(options.get("shape", default_shape))
    if not sparse and dim is None and shape:
        dim = shape[-1]
    return {
        "shape": shape,
        "dim": dim,
        "sparse": sparse,
        "dtype": options.get("dtype", "int32" if sparse else "float32"),
    }


def _options_of_template(template: Any) -> dict[str, Any]:
    return {name: getattr(template, name) for name in ("shape", "dim", "sparse", "dtype")}
