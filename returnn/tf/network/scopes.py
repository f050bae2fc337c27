"""What layers are made and computed in: the current network, the train flag, the dtype of floats, name scopes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tf.frontend_low_level.later_gradients import allow_later_gradients
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.name_scope import scope_of_params
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.layer_errors import naming_layer
from returnn.tf.network.train_flag import train_flag_ctx

_networks: list[Network] = []  # whose layers are being made, the innermost last


def network_stack() -> list[Network]:
    """:return: the networks whose layers are being made, innermost last"""
    return list(_networks)


@contextlib.contextmanager
def network_scope(net: Network) -> Iterator[None]:
    """Makes this network the current one, inside of the `with` block."""
    _networks.append(net)
    try:
        yield
    finally:
        _networks.pop()


@contextlib.contextmanager
def training_scope(net: Network) -> Iterator[None]:
    """The same for code of users, which can ask whether this is training."""
    with network_scope(net), train_flag_ctx(net.train_flag):
        yield


@contextlib.contextmanager
def layer_creation_scope(
    net: Network, layer_class: type[LayerBase] = LayerBase, *, name: str = "", name_scope: str | None = None
) -> Iterator[None]:
    """
    What `__init__` of a user's layer class runs in: the same as `compute`, and name scopes as the class says.

    Variables that it makes by itself are named after the layer, with `var_creation_scope` or without.
    """
    with (
        network_scope(net),
        train_flag_ctx(net.train_flag),
        rf.set_default_float_dtype_ctx(net.float_dtype),
        layer_class.cls_setup_scope(name=name, name_scope=name_scope),
        _variables_of_layer(net, layer_class, name, name_scope),
    ):
        yield


def _variables_of_layer(
    net: Network, layer_class: type[LayerBase], name: str, name_scope: str | None
) -> AbstractContextManager[Any]:
    if not name:
        return contextlib.nullcontext()
    own = layer_class.cls_get_tf_scope_name(name)
    scope = scope_of_params(own, name_scope=name_scope, outer=net.get_absolute_name_scope_prefix()).rstrip("/")
    variables = tf.compat.v1.VariableScope(reuse=tf.compat.v1.AUTO_REUSE, name=scope, use_resource=True)
    return tf.compat.v1.variable_scope(variables, auxiliary_name_scope=False)


@contextlib.contextmanager
def compute_scope(net: Network, layer: LayerBase, suffix: str = "", *, loop: Callable[[], str]) -> Iterator[None]:
    """
    What `compute` of a layer runs in; on templates or on TensorFlow.

    :param net: of the layer
    :param layer: its name begins the names of the operations
    :param suffix: after the name of the layer
    :param loop: gives the loop that the layer is in, in words, for errors
    """
    backend = rf.get_selected_backend()
    with contextlib.ExitStack() as stack:
        stack.enter_context(network_scope(net))
        stack.enter_context(train_flag_ctx(net.train_flag))
        stack.enter_context(rf.set_default_float_dtype_ctx(net.float_dtype))
        if backend != "template":
            if backend != "tf":
                stack.enter_context(rf.backend_ctx("tf"))
            allow_later_gradients()
            scope = f"{layer.cls_get_tf_scope_name(layer.get_absolute_name())}{'/' + suffix if suffix else ''}"
            stack.enter_context(tf.compat.v1.name_scope(f"{scope}/"))  # as it is: "b_1" would rename parameters
        stack.enter_context(naming_layer(layer.where(), lambda: {x.name: x.output for x in layer.sources}, loop=loop()))
        yield
