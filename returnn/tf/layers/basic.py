"""The layers that are not about recurrence, under their documented path. This module only hands them on."""

from returnn.compat import star_imports
from returnn.compat.star_imports import *
from returnn.tensor.dim import Dim
from returnn.tf.layers.axes.batch_axis import FlattenBatchLayer, SplitBatchTimeLayer, UnflattenBatchLayer
from returnn.tf.layers.axes.concat import ConcatLayer, SplitLayer
from returnn.tf.layers.axes.gather import GatherLayer, GatherNdLayer, ScatterNdLayer
from returnn.tf.layers.axes.masked_frames import BooleanMaskLayer, RemoveLayer
from returnn.tf.layers.axes.merge_split import CombineDimsLayer, MergeDimsLayer, SplitDimsLayer
from returnn.tf.layers.axes.pad import PadLayer, PostfixInTimeLayer, PrefixInTimeLayer
from returnn.tf.layers.axes.reinterpret_data import ReinterpretDataLayer
from returnn.tf.layers.axes.resample import RepeatLayer, ResizeLayer, ShiftAxisLayer
from returnn.tf.layers.axes.reshape import ReshapeLayer, UnflattenNdLayer
from returnn.tf.layers.axes.size_one_dims import ExpandDimsLayer, SqueezeLayer
from returnn.tf.layers.axes.slice import SliceLayer
from returnn.tf.layers.axes.slice_nd import SliceNdLayer
from returnn.tf.layers.axes.stack import StackLayer, TileLayer
from returnn.tf.layers.axes.swap_axes import SwapAxesLayer, TransposeLayer
from returnn.tf.layers.axes.time_chunking import TimeChunkingLayer, TimeUnChunkingLayer
from returnn.tf.layers.axes.top_k import SearchSortedLayer, TopKLayer
from returnn.tf.layers.axes.window import FoldLayer, WindowLayer
from returnn.tf.layers.core.copy import CopyLayer, DropoutLayer
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.layers.core.reuse_params import ReuseParams
from returnn.tf.layers.core.sources import (
    _ConcatInputLayer,
    concat_sources,
    concat_sources_with_opt_dropout,
    get_concat_sources_data_template,
)
from returnn.tf.layers.elementwise.activation import ActivationLayer, GatingLayer
from returnn.tf.layers.elementwise.cast import CastLayer
from returnn.tf.layers.elementwise.combine import CombineLayer, CompareLayer, EvalLayer
from returnn.tf.layers.elementwise.gradient_layers import (
    GradientLayer,
    ScaledGradientLayer,
    SyntheticGradientLayer,
    TikhonovRegularizationLayer,
)
from returnn.tf.layers.elementwise.switch import SwitchLayer
from returnn.tf.layers.elementwise.trained_weights import ElemwiseProdLayer, WeightedSumLayer
from returnn.tf.layers.linear.conv import ConvLayer, TransposedConvLayer
from returnn.tf.layers.linear.dot import DotLayer
from returnn.tf.layers.linear.linear import LinearLayer, SoftmaxLayer
from returnn.tf.layers.linear.pool import PoolLayer
from returnn.tf.layers.losses.frame_losses import BinaryCrossEntropyLoss, CrossEntropyLoss, GenericCELoss
from returnn.tf.layers.losses.loss_layers import CtcLossLayer, LossLayer, SparseSoftmaxCrossEntropyWithLogitsLayer
from returnn.tf.layers.losses.rasr_losses import ExternSprintLoss, FastBaumWelchLoss
from returnn.tf.layers.losses.regression_losses import (
    AsIsLoss,
    DeepClusteringLoss,
    L1Loss,
    MeanL1Loss,
    MeanSquaredError,
    TripletLoss,
)
from returnn.tf.layers.losses.sampling_losses import SamplingBasedLoss
from returnn.tf.layers.losses.search_losses import ExpectedLoss, SearchScoreLoss
from returnn.tf.layers.losses.sequence_losses import BleuLoss, CtcLoss, EditDistanceLoss
from returnn.tf.layers.losses.via_layer_loss import ViaLayerLoss
from returnn.tf.layers.options.registry import (
    auto_register_layer_classes,
    get_layer_class,
    get_layer_class_name_list,
    get_loss_class,
    register_layer_class,
    register_loss_class,
)
from returnn.tf.layers.reductions.cumsum import CumsumLayer
from returnn.tf.layers.reductions.normalization import BatchNormLayer, LayerNormLayer, NormLayer
from returnn.tf.layers.reductions.reduce import MathNormLayer, ReduceLayer, ReduceOutLayer
from returnn.tf.layers.reductions.seq_len_mask import SeqLenMaskLayer
from returnn.tf.layers.reductions.softmax_over_spatial import SoftmaxOverSpatialLayer
from returnn.tf.layers.reductions.statistics import AccumulateMeanLayer, BatchSoftmaxLayer, FramewiseStatisticsLayer
from returnn.tf.layers.search.search_choices import SearchChoices, SelectSearchSourcesLayer
from returnn.tf.layers.segmental.alignment import FastBaumWelchLayer, ForcedAlignmentLayer
from returnn.tf.layers.signal.spectral import DctLayer
from returnn.tf.layers.structure.cond import CondLayer
from returnn.tf.layers.structure.debugging import IdentityLayer, ImageSummaryLayer, PrintLayer
from returnn.tf.layers.structure.hdf_dump import HDFDumpLayer
from returnn.tf.layers.structure.source import SourceLayer
from returnn.tf.layers.structure.subnetwork import SubnetworkLayer
from returnn.tf.layers.values.constant import ConstantLayer
from returnn.tf.layers.values.length import LengthLayer
from returnn.tf.layers.values.random_values import RandIntLayer, RandomLayer, RandomStateInitLayer
from returnn.tf.layers.values.ranges import RangeFromLengthLayer, RangeInAxisLayer, RangeLayer
from returnn.tf.layers.values.step_info import GlobalTrainStepLayer, TrainFlagLayer
from returnn.tf.layers.values.variables import VariableLayer
from returnn.tf.util.activations import OutputWithActivation
from returnn.tf.util.data import Data
from returnn.util.not_specified import NotSpecified

__all__ = [
    *star_imports.__all__,
    "AccumulateMeanLayer",
    "ActivationLayer",
    "AsIsLoss",
    "BatchNormLayer",
    "BatchSoftmaxLayer",
    "BinaryCrossEntropyLoss",
    "BleuLoss",
    "BooleanMaskLayer",
    "CastLayer",
    "CombineDimsLayer",
    "CombineLayer",
    "CompareLayer",
    "ConcatLayer",
    "CondLayer",
    "ConstantLayer",
    "ConvLayer",
    "CopyLayer",
    "CrossEntropyLoss",
    "CtcLoss",
    "CtcLossLayer",
    "CumsumLayer",
    "Data",
    "DctLayer",
    "DeepClusteringLoss",
    "Dim",
    "DotLayer",
    "DropoutLayer",
    "EditDistanceLoss",
    "ElemwiseProdLayer",
    "EvalLayer",
    "ExpandDimsLayer",
    "ExpectedLoss",
    "ExternSprintLoss",
    "FastBaumWelchLayer",
    "FastBaumWelchLoss",
    "FlattenBatchLayer",
    "FoldLayer",
    "ForcedAlignmentLayer",
    "FramewiseStatisticsLayer",
    "GatherLayer",
    "GatherNdLayer",
    "GatingLayer",
    "GenericCELoss",
    "GlobalTrainStepLayer",
    "GradientLayer",
    "HDFDumpLayer",
    "IdentityLayer",
    "ImageSummaryLayer",
    "InternalLayer",
    "L1Loss",
    "LayerBase",
    "LayerNormLayer",
    "LengthLayer",
    "LinearLayer",
    "Loss",
    "LossHolder",
    "LossLayer",
    "MathNormLayer",
    "MeanL1Loss",
    "MeanSquaredError",
    "MergeDimsLayer",
    "NormLayer",
    "NotSpecified",
    "OutputWithActivation",
    "PadLayer",
    "PoolLayer",
    "PostfixInTimeLayer",
    "PrefixInTimeLayer",
    "PrintLayer",
    "RandIntLayer",
    "RandomLayer",
    "RandomStateInitLayer",
    "RangeFromLengthLayer",
    "RangeInAxisLayer",
    "RangeLayer",
    "ReduceLayer",
    "ReduceOutLayer",
    "ReinterpretDataLayer",
    "RemoveLayer",
    "RepeatLayer",
    "ReshapeLayer",
    "ResizeLayer",
    "ReuseParams",
    "SamplingBasedLoss",
    "ScaledGradientLayer",
    "ScatterNdLayer",
    "SearchChoices",
    "SearchScoreLoss",
    "SearchSortedLayer",
    "SelectSearchSourcesLayer",
    "SeqLenMaskLayer",
    "ShiftAxisLayer",
    "SliceLayer",
    "SliceNdLayer",
    "SoftmaxLayer",
    "SoftmaxOverSpatialLayer",
    "SourceLayer",
    "SparseSoftmaxCrossEntropyWithLogitsLayer",
    "SplitBatchTimeLayer",
    "SplitDimsLayer",
    "SplitLayer",
    "SqueezeLayer",
    "StackLayer",
    "SubnetworkLayer",
    "SwapAxesLayer",
    "SwitchLayer",
    "SyntheticGradientLayer",
    "TikhonovRegularizationLayer",
    "TileLayer",
    "TimeChunkingLayer",
    "TimeUnChunkingLayer",
    "TopKLayer",
    "TrainFlagLayer",
    "TransposeLayer",
    "TransposedConvLayer",
    "TripletLoss",
    "UnflattenBatchLayer",
    "UnflattenNdLayer",
    "VariableLayer",
    "ViaLayerLoss",
    "WeightedSumLayer",
    "WindowLayer",
    "_ConcatInputLayer",
    "auto_register_layer_classes",
    "concat_sources",
    "concat_sources_with_opt_dropout",
    "get_concat_sources_data_template",
    "get_layer_class",
    "get_layer_class_name_list",
    "get_loss_class",
    "register_layer_class",
    "register_loss_class",
]
