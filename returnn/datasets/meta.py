"""Documented path: hands on the data sets that are made of other data sets."""

from __future__ import annotations

from returnn.datasets.anything import AnythingDataset
from returnn.datasets.chunk_shuffle import ChunkShuffleDataset
from returnn.datasets.clustering import ClusteringDataset
from returnn.datasets.concat_seqs import ConcatSeqsDataset
from returnn.datasets.epoch_datasets import MultiEpochDataset, VariableDataset
from returnn.datasets.epoch_wise_filter import EpochWiseFilter
from returnn.datasets.meta_dataset import MetaDataset
from returnn.datasets.union import CombinedDataset, ConcatDataset

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
