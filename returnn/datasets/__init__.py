"""Sequence data sets. No framework is needed: this package works alone."""

from __future__ import annotations

from returnn.datasets.basic import Dataset, DatasetSeq, get_dataset_class, init_dataset, init_dataset_via_str

__all__ = ["Dataset", "DatasetSeq", "get_dataset_class", "init_dataset", "init_dataset_via_str"]
