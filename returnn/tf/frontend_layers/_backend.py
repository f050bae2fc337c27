"""`ReturnnLayersBackend`: records operations as layers of a net dict. Each theme is in a module of `ops`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from returnn.frontend._backend import Backend, register_backend, register_backend_by_tensor_type
from returnn.tensor import Tensor
from returnn.tensor.scope import register_scope_provider
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.ops.control_flow import ControlFlowLayers
from returnn.tf.frontend_layers.ops.effects import EffectLayers
from returnn.tf.frontend_layers.ops.elementwise import CreationLayers, ElementwiseLayers
from returnn.tf.frontend_layers.ops.expressions import ExpressionLayers
from returnn.tf.frontend_layers.ops.parameters import ParameterLayers
from returnn.tf.frontend_layers.ops.reductions import ReductionLayers
from returnn.tf.frontend_layers.ops.seeds import SeedLayers
from returnn.tf.frontend_layers.ops.sequences import SequenceLayers
from returnn.tf.frontend_layers.ops.windows import WindowLayers
from returnn.tf.frontend_layers.recording import as_recorded, stop_gradient_scope
from returnn.tf.frontend_layers.scopes import BACKEND_NAME, current_stores, network_of_value


class ReturnnLayersBackend(
    ElementwiseLayers,
    CreationLayers,
    WindowLayers,
    ReductionLayers,
    SequenceLayers,
    ExpressionLayers,
    ParameterLayers,
    ControlFlowLayers,
    EffectLayers,
    SeedLayers,
    Backend[Layer],
):
    """Operations become layers of the current `Layer`. A raw tensor knows the dims, in whatever order they are."""

    name = BACKEND_NAME
    RawTensorType = Layer
    is_tensorflow = False
    is_backend_raw_tensor_dim_tag_independent = False
    computes = False  # what is not recorded here is made of other operations
    dispatch_priority = 3

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: False"""
        return False

    @classmethod
    def as_tensor(cls, value: Any, *, like: Tensor[Any] | None = None) -> Tensor[Any]:
        """:return: operand with a layer"""
        return as_recorded(value, like=like)

    @staticmethod
    def get_dtype_name_raw(raw_tensor: Layer) -> str:
        """:return: dtype of the output"""
        assert raw_tensor.tensor is not None
        return raw_tensor.tensor.dtype

    @staticmethod
    def get_ndim_raw(raw_tensor: Layer) -> int:
        """:return: number of axes of the output"""
        assert raw_tensor.tensor is not None
        return len(raw_tensor.tensor.dims)

    @staticmethod
    def get_known_shape_raw(raw_tensor: Layer) -> tuple[int | None, ...]:
        """:return: nothing is known but the number of axes, which have no order"""
        assert raw_tensor.tensor is not None
        return (None,) * len(raw_tensor.tensor.dims)

    @staticmethod
    def transpose_raw(raw_tensor: Layer, perm: Sequence[int]) -> Layer:
        """:return: the same: dims of a layer have no order"""
        return raw_tensor

    @staticmethod
    def get_device(x: Tensor[Any]) -> str | None:
        """:return: None"""
        return None

    @staticmethod
    def graph_of_value(tensor: Tensor[Any]) -> Any:
        """:return: context: new layers go to the loop, branch or root which the layer is in"""
        raw = tensor._raw_tensor
        return network_of_value(raw) if isinstance(raw, Layer) else contextlib.nullcontext()

    @staticmethod
    def should_pickle_tensor(raw_tensor: Layer) -> bool:
        """:return: False"""
        return False

    @staticmethod
    def get_tensor_dependencies(x: Tensor[Any]) -> Sequence[Tensor[Any]]:
        """:return: outputs of the layers that this one needs"""
        return [layer.tensor for layer in x.raw_tensor.get_tensor_dependencies() if layer.tensor is not None]

    @staticmethod
    def get_tensor_consumers(x: Tensor[Any]) -> Sequence[Tensor[Any]]:
        """:return: outputs of the layers that need this one"""
        return [layer.tensor for layer in x.raw_tensor.usages if layer.tensor is not None]

    @staticmethod
    def set_requires_gradient(tensor: Tensor[Any]) -> None:
        """Nothing to do."""

    @staticmethod
    def stop_gradient_scope() -> Any:
        """:return: context: layers made inside have no gradient"""
        return stop_gradient_scope()


register_backend(ReturnnLayersBackend)
register_backend_by_tensor_type(Layer, ReturnnLayersBackend)
register_scope_provider(current_stores, first=True)
