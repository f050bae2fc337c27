"""Documented path: hands on the artificial data sets, and those of some well-known corpora."""

from __future__ import annotations

import sys

from returnn.datasets.audio.bliss_dataset import BlissDataset
from returnn.datasets.audio.librispeech import LibriSpeechCorpus
from returnn.datasets.audio.ogg_zip import OggZipDataset
from returnn.datasets.audio.timit import NltkTimitDataset, TimitDataset
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.generating.base import GeneratingDataset
from returnn.datasets.generating.dummy import (
    DummyDataset,
    DummyDatasetMultipleDataKeys,
    DummyDatasetMultipleSequenceLength,
    DummyGenericDataset,
)
from returnn.datasets.generating.tasks import (
    CopyTaskDataset,
    Task12AXDataset,
    TaskEpisodicCopyDataset,
    TaskNumberBaseConvertDataset,
    TaskVariableAssignmentDataset,
    TaskXmlModelingDataset,
)
from returnn.datasets.lm.enwik8 import Enwik8Corpus
from returnn.datasets.static import StaticDataset
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.datasets.util.vocabulary import BytePairEncoding, CharacterTargets, SentencePieces, Vocabulary

__all__ = [
    "BlissDataset",
    "BytePairEncoding",
    "CharacterTargets",
    "CopyTaskDataset",
    "DatasetSeq",
    "DummyDataset",
    "DummyDatasetMultipleDataKeys",
    "DummyDatasetMultipleSequenceLength",
    "DummyGenericDataset",
    "Enwik8Corpus",
    "ExtractAudioFeatures",
    "GeneratingDataset",
    "LibriSpeechCorpus",
    "NltkTimitDataset",
    "OggZipDataset",
    "SentencePieces",
    "StaticDataset",
    "Task12AXDataset",
    "TaskEpisodicCopyDataset",
    "TaskNumberBaseConvertDataset",
    "TaskVariableAssignmentDataset",
    "TaskXmlModelingDataset",
    "TimitDataset",
    "Vocabulary",
    "demo",
]


def demo() -> None:
    """
    Prints the first sequences of an artificial data set.

        python -m returnn.datasets.generating "Task12AXDataset:num_seqs=5"
    """
    dataset = init_dataset(sys.argv[1] if len(sys.argv) > 1 else "Task12AXDataset:num_seqs=5")
    assert isinstance(dataset, Dataset)
    dataset.init_seq_order(1)
    seq_idx = 0
    while seq_idx < 10 and dataset.is_less_than_num_seqs(seq_idx):
        dataset.load_seqs(seq_idx, seq_idx + 1)
        print(f"{dataset.get_tag(seq_idx)}:")
        for key in dataset.get_data_keys():
            data = dataset.get_data(seq_idx, key)
            readable = dataset.can_serialize_data(key) and data.ndim <= 1
            print(f"  {key}: {dataset.serialize_data(key, data) if readable else data.shape}")
        seq_idx += 1
