"""Where data sets meet the network's `extern_data`: what keys there are, and the shapes of a batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.dataset import Dataset
from returnn.util.numbers.numbers_dict import NumbersDict


class DataTemplate(Protocol):
    """What is asked of the template of one data key."""

    batch_dim_axis: int | None
    time_dim_axis: int | None
    batch_shape: Sequence[int | None]


class ExternDataLike(Protocol):
    """All templates of the network's data."""

    @property
    def data(self) -> Mapping[str, Any]:
        """By key."""


class ConfigWriter(Protocol):
    """A config in which options can be set."""

    def set(self, key: str, value: Any) -> None:
        """Sets an option."""


def set_config_extern_data_from_dataset(config: ConfigWriter, dataset: Dataset) -> None:
    """Sets the option `extern_data` to what the data set has."""
    config.set("extern_data", {key: data_options(dataset, key) for key in dataset.get_data_keys()})


def data_options(dataset: Dataset, key: str) -> dict[str, Any]:
    """:return: options of one data key, as in `extern_data`"""
    has_time = dataset.get_num_axes(key) > 0
    shape = ([None] if has_time else []) + list(dataset.get_data_shape(key))
    options: dict[str, Any] = {"shape": tuple(shape), "dtype": dataset.get_data_dtype(key)}
    if dataset.is_data_sparse(key):
        options["sparse"] = True
    if dataset.is_data_sparse(key) or shape[-1:] not in ([], [None]):
        options["dim"] = dataset.get_data_dim(key)
    return options


def shapes_for_batches(
    batches: Sequence[Batch],
    *,
    data_keys: Collection[str],
    dataset: Dataset | None = None,
    extern_data: ExternDataLike,
    enforce_min_len1: bool = False,
) -> dict[str, list[int]]:
    """
    :param batches: to be computed together, their slices side by side
    :param data_keys: to get the shapes for
    :param dataset: where what varies in the shape of a frame is looked up
    :param extern_data: templates by key
    :param enforce_min_len1: at least one frame, also where there is none
    :return: shape of the padded arrays by key, with the axes in the order of the templates
    """
    num_slices = sum(batch.num_slices for batch in batches)
    num_frames = NumbersDict.max([batch.max_num_frames_per_slice for batch in batches])
    shapes = {}
    for key in data_keys:
        template: DataTemplate = extern_data.data[key]
        shape = list(template.batch_shape)
        if template.batch_dim_axis is not None:
            shape[template.batch_dim_axis] = num_slices
        if template.time_dim_axis is not None:
            shape[template.time_dim_axis] = max(int(num_frames[key]), int(enforce_min_len1))
        shapes[key] = [_known_size(size, key, dataset) for size in shape]
    return shapes


def _known_size(size: int | None, key: str, dataset: Dataset | None) -> int:
    if size is not None:
        return size
    name = dataset.description if dataset else "data set"
    raise ValueError(f"{name}: data key {key!r} has more than one axis of varying size; its batch has no shape yet")
