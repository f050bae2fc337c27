"""Layer normalization by the native kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from returnn.frontend._ops.layout import raw_in_order
from returnn.frontend._ops.nn.normalization import NormalizationOps, last_dims
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Dim, Tensor
from returnn.tensor.tensor_base import tensor_like
from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations


class NormalizationTFOps(NormalizationOps):
    """For the meaning of the operations see `returnn.frontend._ops.nn.normalization`."""

    @classmethod
    def layer_norm(
        cls,
        source: Tensor,
        *,
        in_dims: Sequence[Dim],
        scale: Tensor,
        bias: Tensor | None,
        epsilon: float,
    ) -> Tensor:
        """
        :return: in training, by one operation where the features are the last axes. Otherwise by single ones, so that
            graphs without training run everywhere
        """
        dims = last_dims(source, in_dims)
        is_trained = get_run_ctx().is_train_flag_enabled(func=None) is not False
        operations = get_operations() if has_operations(source.dtype) else None
        if dims is None or not is_trained or operations is None or bias is None or scale.dtype != source.dtype:
            return super().layer_norm(source, in_dims=in_dims, scale=scale, bias=bias, epsilon=epsilon)
        size = math.prod(dim.size for dim in dims if dim.size is not None)
        x = source.raw_tensor
        inputs = {
            "x": tf.reshape(x, [-1, size]),
            "gamma": tf.reshape(raw_in_order(scale, dims), [size]),
            "beta": tf.reshape(raw_in_order(bias, dims), [size]),
        }
        y = tf.reshape(operations.call("layer_norm", inputs, epsilon=epsilon)["y"], tf.shape(x))
        return tensor_like(source, {"name": "layer_norm"}, tf.ensure_shape(y, x.shape))
