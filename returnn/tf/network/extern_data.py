"""`ExternData`: the data that goes into a network, by key, as the config describes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from returnn.datasets.util.data_description import (
    described_data,
    description_of_data,
    found_input,
    template_of_description,
)
from returnn.datasets.util.fits_to_data import check_fits_to_dataset
from returnn.frontend import get_default_float_dtype, set_default_float_dtype_ctx
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.tensor.batch_info import BatchInfo
from returnn.tensor.tensor_batch import SIZE_OF_PLACEHOLDERS
from returnn.tf.frontend_low_level.outermost_graph import PLACEHOLDERS_SCOPE, outermost_graph
from returnn.tf.network.float_dtype import float_dtype_of_config
from returnn.util.errors import ConfigError, nearest_hint

tf1 = tf.compat.v1
_DELAYED = "LmDataset and some others have it with the option 'add_delayed_seq_data'."


class MissingData(ConfigError):
    """A data set has not all that a network needs."""

    def __init__(self, key: str, have: Collection[str]) -> None:
        """
        :param key: what is missing
        :param have: what is there
        """
        hint = f" {_DELAYED}" if key == "delayed" else ""
        super().__init__(f"extern_data: the dataset has no {key!r}.\n  {nearest_hint(key, have)}{hint}")
        self.key = key


class ExternData(TensorDict):
    """
    The data that goes into a network.

    A description is a dict of options for `Tensor`; a number (the number of labels, or the feature dim); or a pair of
    a number and the number of axes, as old configs have it in `num_outputs`.
    """

    def __init__(
        self, data: Mapping[str, Any] | None = None, default_input: str = "data", default_target: str = "classes"
    ) -> None:
        """
        :param data: descriptions by key
        :param default_input: key of what "data" means in the net dict
        :param default_target: key of the target, where none is given
        """
        super().__init__()
        self.default_input = default_input
        self.default_target = default_target
        self.extra_added_keys: set[str] = set()  # registered by layers
        self._placeholders_wanted = False
        if data:
            self.register_from_dict(data)

    def __repr__(self) -> str:
        return f"<ExternData {self.get_data_description()}>"

    def register_from_dict(self, data: Mapping[str, Any], *, auto_create_placeholders: bool = False) -> None:
        """
        :param data: descriptions by key
        :param auto_create_placeholders: make placeholders for values and lengths
        :raises ConfigError: if a description is wrong
        """
        for key, description in data.items():
            self.data[key] = template_of_description(
                key, description, is_input=key == self.default_input, float_dtype=get_default_float_dtype()
            )
        self._placeholders_wanted = bool(self.data)
        if auto_create_placeholders:
            self.create_placeholders()

    def register_data_from_dict(self, data: Mapping[str, Any], *, auto_create_placeholders: bool = False) -> None:
        """Old word for `register_from_dict`."""
        self.register_from_dict(data, auto_create_placeholders=auto_create_placeholders)

    def init_from_config(self, config: Any, auto_create_placeholders: bool = False, reset_batch: bool = True) -> None:
        """
        :param config: its options `extern_data`, or `num_inputs` and `num_outputs`; `target`
        :param auto_create_placeholders: make placeholders for values and lengths
        :param reset_batch: forget lengths that dims have from before
        """
        description = described_data(config)
        if config.has("target"):
            self.default_target = config.options.target
        if config.has("default_input"):
            self.default_input = config.options.default_input
        self.default_input = found_input(description, default_input=self.default_input, target=self.default_target)
        with set_default_float_dtype_ctx(float_dtype_of_config(config)):
            self.register_from_dict(description)
        if reset_batch:
            for dim in self.all_dims():
                dim.reset_raw()
        if auto_create_placeholders:
            self.create_placeholders()

    def init_from_dataset(self, dataset: Any, auto_create_placeholders: bool = True) -> None:
        """
        :param dataset: it knows keys, dims and dtypes
        :param auto_create_placeholders: make placeholders for values and lengths
        """
        keys = list(dataset.get_data_keys())
        if keys and self.default_input not in keys:
            self.default_input = keys[0]
        targets = dataset.get_target_list()
        if targets and self.default_target not in targets:
            self.default_target = targets[0]
        descriptions = {key: description_of_data(dataset, key) for key in keys}
        self.register_from_dict(descriptions, auto_create_placeholders=auto_create_placeholders)

    def create_placeholders(self, *, with_targets: bool = True, also: Collection[str] = ()) -> None:
        """
        Makes placeholders for all values, for the lengths of all dynamic dims, and for the size of the batch, which
        need not be fed.

        :param with_targets: also for data which is not available for inference
        :param also: keys of such data for which there are placeholders nevertheless
        """
        self._placeholders_wanted = False
        with tf1.name_scope(PLACEHOLDERS_SCOPE):
            for key, tensor in self.data.items():
                if tensor.raw_tensor is None and (with_targets or tensor.available_for_inference or key in also):
                    _create_placeholders(key, tensor)
            self.init_batch_info()

    def create_wanted_placeholders(self) -> None:
        """
        Makes placeholders where data was described, and no value was given since. Scripts which give values of their
        own do so before the first layer needs them.
        """
        if self._placeholders_wanted:
            with outermost_graph():
                self.create_placeholders()

    def add_seq_info(self, key: str) -> None:
        """
        Every dataset knows tag and index of a sequence, so no description has to mention them.

        :param key: "seq_tag" or "seq_idx"; if there is no such data yet, it is fed, or counts the sequences of a batch
        """
        if key in self.data:
            return
        with outermost_graph(), tf1.name_scope(PLACEHOLDERS_SCOPE):
            default = tf.range(batch_dim.get_dim_value())
            if key == "seq_tag":
                default = tf.strings.join(["seq-", tf.strings.as_string(default)])
            raw = tf1.placeholder_with_default(default, shape=(None,), name=key)
        self.data[key] = Tensor(
            key, dims=[batch_dim], dtype=raw.dtype.name, raw_tensor=raw, available_for_inference=True
        )

    def check_matched_dataset(self, dataset: Any, used_data_keys: Any = None) -> None:
        """
        :param dataset: dataset
        :param used_data_keys: keys to look at; default: all
        :raises ConfigError: if the dataset does not have what is described here
        """
        have = set(dataset.get_data_keys())
        for key, tensor in self.get_sorted_data_items():
            is_unused = used_data_keys is not None and key not in used_data_keys
            if is_unused or key in self.extra_added_keys or key in ("seq_tag", "seq_idx"):
                continue
            if key not in have:
                raise MissingData(key, have)
            check_fits_to_dataset(key, tensor, dataset)

    def get_data(self, name: str) -> Tensor:
        """
        :param name: key; or "data" for the default input
        :raises ConfigError: if there is no such key
        """
        if name not in self.data and name == "data":
            name = self.default_input
        if name not in self.data:
            raise ConfigError(f"extern_data: there is no {name!r}.\n  {nearest_hint(name, self.data)}")
        return self.data[name]

    def has_data(self, name: str) -> bool:
        """:return: whether there is such a key"""
        return name in self.data or (name == "data" and self.default_input in self.data)

    def register_data(self, data: Tensor) -> None:
        """Adds a tensor under its name."""
        self.data[data.name] = data

    def get_default_input_data(self) -> Tensor:
        """:return: what "data" means in the net dict"""
        return self.get_data(self.default_input)

    def get_default_target_data(self) -> Tensor:
        """:return: the target, where none is given"""
        return self.get_data(self.default_target)

    def get_sorted_data_items(self) -> list[tuple[str, Tensor]]:
        """:return: keys and tensors, the default input first"""
        return sorted(self.data.items(), key=lambda item: (item[0] != self.default_input, item[0]))

    def get_data_description(self) -> str:
        """:return: keys and what their data looks like, in one line"""
        return ", ".join(
            f"{key}: {data.get_description(with_name=False)}" for key, data in self.get_sorted_data_items()
        )

    def get_all_dimension_tags(self, allow_same_feature_dim: bool = False) -> list[Dim]:
        """:return: all dims of the data, each once"""
        options = {"allow_same_feature_dim": allow_same_feature_dim}
        return Dim.get_all_dimension_tags([d for _, d in self.get_sorted_data_items()], options)[0]

    def get_batch_info(self, allow_none: bool = False) -> BatchInfo | None:
        """:return: what the batch axis of the data consists of"""
        for _, data in self.get_sorted_data_items():
            if data.have_batch_axis():
                return data.batch
        if allow_none:
            return None
        raise ConfigError("extern_data: there is no data with a batch axis.")

    def init_batch_info(self) -> None:
        """
        Sees to it that the size of the batch is known. It can be fed; by default it follows from the default input, or
        the first other data with a batch axis.
        """
        if batch_dim.dyn_size is not None:
            return
        for _, data in self.get_sorted_data_items():
            if data.raw_tensor is not None and data.have_batch_axis():
                size = tf.shape(data.raw_tensor)[data.batch_dim_axis]
                size = tf1.placeholder_with_default(size, shape=(), name="batch_dim")
                batch_dim.dyn_size_ext = Tensor(SIZE_OF_PLACEHOLDERS, dims=(), dtype="int32", raw_tensor=size)
                return

    def set_batch_info(self, batch_info: BatchInfo, *, init_batch_info: bool = True) -> None:
        """Sets what the batch axis of the data consists of."""
        for data in self.data.values():
            if data.have_batch_axis():
                data.batch = batch_info
        if init_batch_info:
            self.init_batch_info()


def _create_placeholders(key: str, tensor: Tensor) -> None:
    with tf1.name_scope("".join(c if c.isalnum() or c in "_.-" else "_" for c in key)):
        tensor.create_placeholders()
