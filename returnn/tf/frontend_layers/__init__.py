"""
The backend `returnn_layers_tf`: operations of the frontend are recorded as layers of a net dict.

    with rf.backend_ctx("returnn_layers_tf"), Layer.new_root() as root:
        x = register_extern_data(Tensor("data", [batch_dim, time_dim, feature_dim], "float32"))
        root.make_default_output(model(x))
        net_dict = root.make_net().make_net_dict_raw()
"""

from returnn.compat.util.dicts import RefIdEq
from returnn.tensor import ControlFlowContext, Dim, Tensor, batch_dim, single_step_dim
from returnn.tensor.batch_info import BatchInfo
from returnn.tf.frontend_layers._backend import ReturnnLayersBackend
from returnn.tf.frontend_layers.behavior import min_returnn_behavior_version
from returnn.tf.frontend_layers.cond import Cond, CondModule, T
from returnn.tf.frontend_layers.config_entry_points import get_net_dict
from returnn.tf.frontend_layers.debug_eager_mode import (
    disable_debug_eager_mode,
    enable_debug_eager_mode,
    is_debug_eager_mode_enabled,
)
from returnn.tf.frontend_layers.dims import get_dim_deps
from returnn.tf.frontend_layers.layer import Layer, Net, ReturnnDimTagsProxy, auto_setup_name_ctx_ignore_func
from returnn.tf.frontend_layers.loop import Loop, LoopModule
from returnn.tf.frontend_layers.make_layer import make_layer, register_extern_data
from returnn.tf.frontend_layers.masked_computation import MaskedComputation, MaskedComputationModule
from returnn.tf.frontend_layers.prev_tensor_ref import PrevTensorRef
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.util.not_specified import NotSpecified

__all__ = [
    "BatchInfo",
    "Cond",
    "CondModule",
    "ControlFlowContext",
    "Dim",
    "Layer",
    "LayerBase",
    "Loop",
    "LoopModule",
    "MaskedComputation",
    "MaskedComputationModule",
    "Net",
    "NotSpecified",
    "PrevTensorRef",
    "RefIdEq",
    "ReturnnDimTagsProxy",
    "ReturnnLayersBackend",
    "T",
    "Tensor",
    "auto_setup_name_ctx_ignore_func",
    "batch_dim",
    "disable_debug_eager_mode",
    "enable_debug_eager_mode",
    "get_dim_deps",
    "get_net_dict",
    "is_debug_eager_mode_enabled",
    "make_layer",
    "min_returnn_behavior_version",
    "register_extern_data",
    "single_step_dim",
]
