"""What layers and losses are based on, under its documented path. This module only hands it on."""

from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase, WrappedInternalLayer
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.core.reuse_params import ReuseParams
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.tf.layers.structure.unavailable_data import DataNotAvailableLayer

__all__ = [
    "DataNotAvailableLayer",
    "InternalLayer",
    "LayerBase",
    "Loss",
    "ReuseParams",
    "SearchChoices",
    "WrappedInternalLayer",
]
