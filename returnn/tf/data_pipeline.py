"""Documented path: hands on where feed dicts come from. It belongs to the engine, which uses them."""

from __future__ import annotations

from returnn.engine.batch import BatchSetGenerator
from returnn.tf.engine.feeding.data_pipeline import (
    DataProviderBase,
    DatasetDataProvider,
    FeedDictDataProvider,
    InputContext,
)

__all__ = ["BatchSetGenerator", "DataProviderBase", "DatasetDataProvider", "FeedDictDataProvider", "InputContext"]
