"""Documented path: hands on the artificial data sets, and those of some well-known corpora."""

from __future__ import annotations

from returnn.datasets.generating_base import GeneratingDataset
from returnn.datasets.generating_dummy import (
    DummyDataset,
    DummyDatasetMultipleDataKeys,
    DummyDatasetMultipleSequenceLength,
    DummyGenericDataset,
)
from returnn.datasets.generating_tasks import (
    CopyTaskDataset,
    Task12AXDataset,
    TaskEpisodicCopyDataset,
    TaskNumberBaseConvertDataset,
    TaskVariableAssignmentDataset,
    TaskXmlModelingDataset,
)
from returnn.datasets.static import StaticDataset

__all__ = [
    "CopyTaskDataset",
    "DummyDataset",
    "DummyDatasetMultipleDataKeys",
    "DummyDatasetMultipleSequenceLength",
    "DummyGenericDataset",
    "GeneratingDataset",
    "StaticDataset",
    "Task12AXDataset",
    "TaskEpisodicCopyDataset",
    "TaskNumberBaseConvertDataset",
    "TaskVariableAssignmentDataset",
    "TaskXmlModelingDataset",
]
