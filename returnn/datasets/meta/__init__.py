"""Documented path: hands on the data sets that are made of other data sets."""

from __future__ import annotations

from returnn.datasets.core.epoch_wise_filter import EpochWiseFilter
from returnn.datasets.meta.anything import AnythingDataset
from returnn.datasets.meta.chunk_shuffle import ChunkShuffleDataset
from returnn.datasets.meta.clustering import ClusteringDataset
from returnn.datasets.meta.concat_seqs import ConcatSeqsDataset
from returnn.datasets.meta.epoch_datasets import MultiEpochDataset, VariableDataset
from returnn.datasets.meta.meta_dataset import MetaDataset
from returnn.datasets.meta.union import CombinedDataset, ConcatDataset

__all__ = [
    "AnythingDataset",
    "ChunkShuffleDataset",
    "ClusteringDataset",
    "CombinedDataset",
    "ConcatDataset",
    "ConcatSeqsDataset",
    "EpochWiseFilter",
    "MetaDataset",
    "MultiEpochDataset",
    "VariableDataset",
]
