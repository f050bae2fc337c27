"""Networks: `TFNetwork` makes layers from a net dict, `ExternData` is what goes into them."""

from returnn.tf.layers.loss_holder import LossHolder
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.layer_names import (
    CannotHandleUndefinedSourcesException,
    DataNotFound,
    LayerNotFound,
    NetworkConstructionDependencyLoopException,
    NetworkLayerException,
)
from returnn.tf.network.network import TFNetwork

__all__ = [
    "CannotHandleUndefinedSourcesException",
    "DataNotFound",
    "ExternData",
    "LayerNotFound",
    "LossHolder",
    "NetworkConstructionDependencyLoopException",
    "NetworkLayerException",
    "TFNetwork",
]
