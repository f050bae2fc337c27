"""Layers about signals, under their documented path. This module only hands them on."""

from returnn.tf.layers.signal.channels import BatchMedianPoolingLayer, SplitConcatMultiChannel, TileFeaturesLayer
from returnn.tf.layers.signal.complex_numbers import (
    AlternatingRealToComplexLayer,
    ComplexLinearProjectionLayer,
    ComplexToAlternatingRealLayer,
)
from returnn.tf.layers.signal.enhancement import (
    MaskBasedGevBeamformingLayer,
    MaskBasedMvdrBeamformingWithDiagLoadingLayer,
    NoiseEstimationByFirstTFramesLayer,
    ParametricWienerFilterLayer,
    SignalMaskingLayer,
)
from returnn.tf.layers.signal.spectral import (
    IstftLayer,
    MelFilterbankLayer,
    MultiChannelMultiResolutionStftLayer,
    MultiChannelStftLayer,
    StftLayer,
)

__all__ = [
    "AlternatingRealToComplexLayer",
    "BatchMedianPoolingLayer",
    "ComplexLinearProjectionLayer",
    "ComplexToAlternatingRealLayer",
    "IstftLayer",
    "MaskBasedGevBeamformingLayer",
    "MaskBasedMvdrBeamformingWithDiagLoadingLayer",
    "MelFilterbankLayer",
    "MultiChannelMultiResolutionStftLayer",
    "MultiChannelStftLayer",
    "NoiseEstimationByFirstTFramesLayer",
    "ParametricWienerFilterLayer",
    "SignalMaskingLayer",
    "SplitConcatMultiChannel",
    "StftLayer",
    "TileFeaturesLayer",
]
