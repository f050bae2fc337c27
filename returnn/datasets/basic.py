"""Documented path: hands on the base class of all data sets, and what makes data sets from a config."""

from __future__ import annotations

from returnn.datasets.core.batch import Batch
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.data_dims import convert_data_dims
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_order import RANDOM_SEED_OFFSET_ENV_VAR
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.extern_data import set_config_extern_data_from_dataset, shapes_for_batches
from returnn.datasets.core.registry import (
    extend_dataset_dict_from_parent_dataset,
    get_dataset_class,
    init_dataset,
    init_dataset_via_str,
)

__all__ = [
    "RANDOM_SEED_OFFSET_ENV_VAR",
    "Batch",
    "BatchSetGenerator",
    "DataError",
    "Dataset",
    "DatasetSeq",
    "convert_data_dims",
    "extend_dataset_dict_from_parent_dataset",
    "get_dataset_class",
    "init_dataset",
    "init_dataset_via_str",
    "set_config_extern_data_from_dataset",
    "shapes_for_batches",
]
