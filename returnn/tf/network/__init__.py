"""Networks: `TFNetwork` makes layers from a net dict, `ExternData` is what goes into them."""

from returnn.tf.checkpoint import (
    CustomCheckpointLoader,
    CustomLoadParamFunc,
    have_custom_post_init,
    set_custom_post_init,
)
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.network.exception_help import help_on_tf_exception
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.layer_names import (
    CannotHandleUndefinedSourcesException,
    DataNotFound,
    LayerNotFound,
    NetworkConstructionDependencyLoopException,
    NetworkLayerException,
)
from returnn.tf.network.network import TFNetwork
from returnn.tf.network.params import TFNetworkParamsSerialized
from returnn.tf.network.subnet_access import GetLayer, Subnetwork
from returnn.tf.util.graph_mode import use_graph_mode

__all__ = [
    "CannotHandleUndefinedSourcesException",
    "CustomCheckpointLoader",
    "CustomLoadParamFunc",
    "DataNotFound",
    "ExternData",
    "GetLayer",
    "LayerBase",
    "LayerNotFound",
    "LossHolder",
    "NetworkConstructionDependencyLoopException",
    "NetworkLayerException",
    "Subnetwork",
    "TFNetwork",
    "TFNetworkParamsSerialized",
    "have_custom_post_init",
    "help_on_tf_exception",
    "set_custom_post_init",
]

use_graph_mode()
