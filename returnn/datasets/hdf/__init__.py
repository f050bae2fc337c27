"""Documented path: hands on the data sets that read HDF files, and what writes such files."""

from __future__ import annotations

from returnn.datasets.hdf.hdf_dataset import HDFDataset
from returnn.datasets.hdf.hdf_file import attr_ctcIndexTranscription, attr_inputPattSize, attr_seqLengths, attr_times
from returnn.datasets.hdf.hdf_streams import (
    FeatureSequenceStreamParser,
    NextGenHDFDataset,
    SegmentAlignmentStreamParser,
    SiameseHDFDataset,
    SparseStreamParser,
    StreamParser,
)
from returnn.datasets.hdf.hdf_writer import HDFDatasetWriter, SimpleHDFWriter

__all__ = [
    "FeatureSequenceStreamParser",
    "HDFDataset",
    "HDFDatasetWriter",
    "NextGenHDFDataset",
    "SegmentAlignmentStreamParser",
    "SiameseHDFDataset",
    "SimpleHDFWriter",
    "SparseStreamParser",
    "StreamParser",
    "attr_ctcIndexTranscription",
    "attr_inputPattSize",
    "attr_seqLengths",
    "attr_times",
]
