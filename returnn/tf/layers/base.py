"""What layers and losses are based on, under its documented path. This module only hands it on."""

from returnn.tf.layers.layer_base import InternalLayer, LayerBase, WrappedInternalLayer
from returnn.tf.layers.loss import Loss
from returnn.tf.layers.reuse_params import ReuseParams
from returnn.tf.layers.search_choices import SearchChoices
from returnn.tf.layers.unavailable_data import DataNotAvailableLayer

__all__ = [
    "DataNotAvailableLayer",
    "InternalLayer",
    "LayerBase",
    "Loss",
    "ReuseParams",
    "SearchChoices",
    "WrappedInternalLayer",
]
