"""Outputs and states before the first frame of a loop, as templates: do they fit, which parameters are they."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.across_batches.kept_state import is_word
from returnn.tf.layers.loop.frame import Frame
from returnn.tf.layers.loop.initial import InitialOutput, initial_value
from returnn.tf.layers.rec.initial_parameter import InitialParameter

if TYPE_CHECKING:
    from returnn.tf.layers.loop.compile import CompiledLoop


def infer_initial_values(loop: CompiledLoop) -> None:
    """
    Makes templates of all that a loop begins with, in the way in which the loop makes the values.

    :param loop: a loop of which the dims are known
    :raises ConfigError: if an initial value does not fit
    """
    inputs = loop.inputs
    network = inputs.make_network(Frame(inputs.prefix, inputs.layer), is_step=False, source=inputs.source)

    def get_layer(name: str) -> LayerBase:
        return network.construct_layer(network.layers_desc, name)

    for path, template in loop.inferred.prev.items():
        _infer(loop, network, path, loop.inferred.layers[path]._initial_output, template, get_layer)
    inside = set(loop.plan.at("inside"))
    for path in loop.inferred.states:
        for state in loop.inferred.states[path].values():
            if isinstance(state.initial, InitialParameter):
                state.initial()  # also of a layer that was moved out
            if path not in inside:
                continue
            is_output = isinstance(state.initial, InitialOutput)
            value = loop.inferred.layers[path]._initial_output if is_output else state.initial
            _infer(loop, network, path, value, state.template, get_layer)


def _infer(
    loop: CompiledLoop,
    network: Network,
    path: str,
    value: Any,
    template: Tensor,
    get_layer: Callable[[str], LayerBase],
) -> None:
    if callable(value) and not hasattr(value, "output"):  # it makes a value
        return
    if is_word(value) and path in loop.inferred.prev:  # as of the template
        return
    layer = loop.inferred.layers[path]
    owner = InternalLayer(name=layer.name, network=network, output=layer.output, name_scope=layer.name_scope)
    owner.layer_class = layer.layer_class  # for error messages
    initial_value(value, template, layer=owner, get_layer=get_layer, apply_on_zeros=lambda: template)
