"""The TensorFlow backend, put together from its themes."""

from __future__ import annotations

import tensorflow as tf

from returnn.frontend._backend import Backend, register_backend, register_backend_by_tensor_type
from returnn.tensor.scope import register_scope_provider
from returnn.tf.frontend_low_level.control_flow import ControlFlowTFOps
from returnn.tf.frontend_low_level.gradient import GradientTFOps
from returnn.tf.frontend_low_level.nn.conv import ConvTFOps
from returnn.tf.frontend_low_level.nn.ctc import CtcTFOps
from returnn.tf.frontend_low_level.nn.normalization import NormalizationTFOps
from returnn.tf.frontend_low_level.nn.rec import RecTFOps
from returnn.tf.frontend_low_level.nn.softmax import SoftmaxTFOps
from returnn.tf.frontend_low_level.numeric import NumericTFOps
from returnn.tf.frontend_low_level.parameter import ParameterTFOps
from returnn.tf.frontend_low_level.random import RandomTFOps
from returnn.tf.frontend_low_level.raw import RawTFOps
from returnn.tf.frontend_low_level.scope import current_graph_stores
from returnn.tf.frontend_low_level.select import SelectTFOps
from returnn.tf.frontend_low_level.shape import ShapeTFOps
from returnn.tf.frontend_low_level.tensor_array import TensorArrayTFOps


class TFBackend(
    RawTFOps,
    SoftmaxTFOps,
    RecTFOps,
    CtcTFOps,
    ConvTFOps,
    NormalizationTFOps,
    ShapeTFOps,
    SelectTFOps,
    NumericTFOps,
    RandomTFOps,
    GradientTFOps,
    ControlFlowTFOps,
    ParameterTFOps,
    TensorArrayTFOps,
    Backend[tf.Tensor],
):
    """Operations become part of the current TensorFlow graph."""

    name = "tf"
    RawTensorType = tf.Tensor
    is_tensorflow = True
    dispatch_priority = 2


register_backend(TFBackend)
register_backend_by_tensor_type(tf.Tensor, TFBackend)
register_backend_by_tensor_type(tf.Variable, TFBackend)
register_scope_provider(current_graph_stores)
