"""What the output of a layer looks like, asked of its class: the layer is made alone, on templates of its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.layers.core.layer_base import InternalLayer
from returnn.tf.network.extern_data import ExternData
from returnn.tf.network.network import TFNetwork
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import UserError


class ReturnnConstructTemplateException(Exception):
    """It could not be found out what the output of a layer looks like."""


def infer_template(layer: Layer) -> Tensor[Any]:
    """
    :param layer: with options
    :return: template of its output
    :raises ReturnnConstructTemplateException: if the layer class finds something wrong
    """
    config = Config({"behavior_version": BehaviorVersion.get()})
    network = TFNetwork(config=config, extern_data=ExternData(), only_template=True, train_flag=False, eval_flag=False)
    name = layer.name or "layer"
    with rf.backend_ctx("template"):
        try:
            options = _named(layer.layer_dict, network, {})
            network.layers_desc[name] = options
            output = network.construct_layer(network.layers_desc, name).output
        except UserError as exc:
            raise ReturnnConstructTemplateException(f"{layer.get_abs_name_repr()}: {exc}") from exc
    assert output is not None
    return output.copy_template(name)


def _named(value: Any, network: TFNetwork, known: dict[int, str]) -> Any:
    """:return: the same, with names of layers of this network in place of tensors"""
    if isinstance(value, (Tensor, Layer)):
        layer = value.raw_tensor if isinstance(value, Tensor) else value
        if id(layer) not in known:
            assert layer.tensor is not None
            template = (value if isinstance(value, Tensor) else layer.tensor).copy_template()
            known[id(layer)] = f"source_{len(known)}"
            inner = InternalLayer(name=known[id(layer)], network=network, output=template)
            network.layers[inner.name] = inner
        return known[id(layer)]
    if isinstance(value, Mapping):
        return {key: _named(entry, network, known) for key, entry in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_named(entry, network, known) for entry in value)
    return value
