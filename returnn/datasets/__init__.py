"""
Sequence data sets. No framework is needed: this package works alone.

`static.py` is a short one. A new class gets a line in the table of `core/registry.py`, by which configs find it.
"""

from __future__ import annotations

from returnn.datasets.basic import Dataset, DatasetSeq, get_dataset_class, init_dataset, init_dataset_via_str

__all__ = ["Dataset", "DatasetSeq", "get_dataset_class", "init_dataset", "init_dataset_via_str"]
