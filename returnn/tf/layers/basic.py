"""The layers that are not about recurrence, under their documented path. This module only hands them on."""

from returnn.tensor.dim import Dim
from returnn.tf.layers.activation import ActivationLayer, GatingLayer
from returnn.tf.layers.alignment import FastBaumWelchLayer, ForcedAlignmentLayer
from returnn.tf.layers.batch_axis import FlattenBatchLayer, SplitBatchTimeLayer, UnflattenBatchLayer
from returnn.tf.layers.cast import CastLayer
from returnn.tf.layers.combine import CombineLayer, CompareLayer, EvalLayer
from returnn.tf.layers.concat import ConcatLayer, SplitLayer
from returnn.tf.layers.cond import CondLayer
from returnn.tf.layers.constant import ConstantLayer
from returnn.tf.layers.conv import ConvLayer, TransposedConvLayer
from returnn.tf.layers.copy import CopyLayer, DropoutLayer
from returnn.tf.layers.cumsum import CumsumLayer
from returnn.tf.layers.debugging import IdentityLayer, ImageSummaryLayer, PrintLayer
from returnn.tf.layers.dot import DotLayer
from returnn.tf.layers.gather import GatherLayer, GatherNdLayer, ScatterNdLayer
from returnn.tf.layers.gradient_layers import (
    GradientLayer,
    ScaledGradientLayer,
    SyntheticGradientLayer,
    TikhonovRegularizationLayer,
)
from returnn.tf.layers.hdf_dump import HDFDumpLayer
from returnn.tf.layers.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.length import LengthLayer
from returnn.tf.layers.linear import LinearLayer, SoftmaxLayer
from returnn.tf.layers.loss import Loss
from returnn.tf.layers.loss_holder import LossHolder
from returnn.tf.layers.loss_layers import CtcLossLayer, LossLayer, SparseSoftmaxCrossEntropyWithLogitsLayer
from returnn.tf.layers.losses import BinaryCrossEntropyLoss, CrossEntropyLoss, GenericCELoss
from returnn.tf.layers.losses_rasr import ExternSprintLoss, FastBaumWelchLoss
from returnn.tf.layers.losses_regression import (
    AsIsLoss,
    DeepClusteringLoss,
    L1Loss,
    MeanL1Loss,
    MeanSquaredError,
    TripletLoss,
)
from returnn.tf.layers.losses_sampling import SamplingBasedLoss
from returnn.tf.layers.losses_search import ExpectedLoss, SearchScoreLoss
from returnn.tf.layers.losses_sequence import BleuLoss, CtcLoss, EditDistanceLoss
from returnn.tf.layers.losses_via_layer import ViaLayerLoss
from returnn.tf.layers.masked_frames import BooleanMaskLayer, RemoveLayer
from returnn.tf.layers.merge_split import CombineDimsLayer, MergeDimsLayer, SplitDimsLayer
from returnn.tf.layers.normalization import BatchNormLayer, LayerNormLayer, NormLayer
from returnn.tf.layers.pad import PadLayer, PostfixInTimeLayer, PrefixInTimeLayer
from returnn.tf.layers.pool import PoolLayer
from returnn.tf.layers.random_values import RandIntLayer, RandomLayer, RandomStateInitLayer
from returnn.tf.layers.ranges import RangeFromLengthLayer, RangeInAxisLayer, RangeLayer
from returnn.tf.layers.reduce import MathNormLayer, ReduceLayer, ReduceOutLayer
from returnn.tf.layers.registry import (
    auto_register_layer_classes,
    get_layer_class,
    get_layer_class_name_list,
    get_loss_class,
    register_layer_class,
    register_loss_class,
)
from returnn.tf.layers.reinterpret_data import ReinterpretDataLayer
from returnn.tf.layers.resample import RepeatLayer, ResizeLayer, ShiftAxisLayer
from returnn.tf.layers.reshape import ReshapeLayer, UnflattenNdLayer
from returnn.tf.layers.reuse_params import ReuseParams
from returnn.tf.layers.search_choices import SearchChoices, SelectSearchSourcesLayer
from returnn.tf.layers.seq_len_mask import SeqLenMaskLayer
from returnn.tf.layers.size_one_dims import ExpandDimsLayer, SqueezeLayer
from returnn.tf.layers.slice import SliceLayer
from returnn.tf.layers.slice_nd import SliceNdLayer
from returnn.tf.layers.softmax_over_spatial import SoftmaxOverSpatialLayer
from returnn.tf.layers.source import SourceLayer
from returnn.tf.layers.sources import (
    _ConcatInputLayer,
    concat_sources,
    concat_sources_with_opt_dropout,
    get_concat_sources_data_template,
)
from returnn.tf.layers.spectral import DctLayer
from returnn.tf.layers.stack import StackLayer, TileLayer
from returnn.tf.layers.statistics import AccumulateMeanLayer, BatchSoftmaxLayer, FramewiseStatisticsLayer
from returnn.tf.layers.step_info import GlobalTrainStepLayer, TrainFlagLayer
from returnn.tf.layers.subnetwork import SubnetworkLayer
from returnn.tf.layers.swap_axes import SwapAxesLayer, TransposeLayer
from returnn.tf.layers.switch import SwitchLayer
from returnn.tf.layers.time_chunking import TimeChunkingLayer, TimeUnChunkingLayer
from returnn.tf.layers.top_k import SearchSortedLayer, TopKLayer
from returnn.tf.layers.trained_weights import ElemwiseProdLayer, WeightedSumLayer
from returnn.tf.layers.window import FoldLayer, WindowLayer
from returnn.tf.util.activations import OutputWithActivation
from returnn.tf.util.data import Data
from returnn.util.not_specified import NotSpecified

__all__ = [
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
