"""Documented path: hands on what a batch is made of. It belongs to the data sets, which make the batches."""

from __future__ import annotations

from returnn.datasets.core.batch import Batch, BatchSeqCopyPart
from returnn.datasets.core.batch_arrays import batch_to_raw_dict
from returnn.datasets.core.batch_generator import BatchSetGenerator

__all__ = ["Batch", "BatchSeqCopyPart", "BatchSetGenerator", "batch_to_raw_dict"]
