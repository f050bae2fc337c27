"""Segmental models, under their documented path. This module only hands them on."""

from returnn.tf.layers.segmental.segment_windows import (
    FillUnusedMemoryLayer,
    FlattenTimeLayer,
    SegmentInputLayer,
    SwapTimeFeatureLayer,
    UnsegmentInputLayer,
    batch_indices_after_windowing,
    batch_sizes_after_windowing,
)
from returnn.tf.layers.segmental.segments import (
    ApplyLengthDistributionLayer,
    ClassesToLengthDistributionGlobalLayer,
    ClassesToLengthDistributionLayer,
    ClassesToSegmentsLayer,
    NormalizeLengthScoresLayer,
    SegmentAlignmentLayer,
)

__all__ = [
    "ApplyLengthDistributionLayer",
    "ClassesToLengthDistributionGlobalLayer",
    "ClassesToLengthDistributionLayer",
    "ClassesToSegmentsLayer",
    "FillUnusedMemoryLayer",
    "FlattenTimeLayer",
    "NormalizeLengthScoresLayer",
    "SegmentAlignmentLayer",
    "SegmentInputLayer",
    "SwapTimeFeatureLayer",
    "UnsegmentInputLayer",
    "batch_indices_after_windowing",
    "batch_sizes_after_windowing",
]
