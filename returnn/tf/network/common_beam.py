"""
Where beams meet the rest of a network.

The sources of a layer may come from different steps of a search; they are brought to the latest one. And at the border
to code that sees raw tensors, batch and beam are one axis.
"""

from __future__ import annotations

from typing import Any

from returnn.tensor import Dim
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.layer_options import map_layers
from returnn.tf.layers.search.search_choices import on_beam
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.tf.network.extra_nets import all_extra_nets
from returnn.tf.network.raw_layers import known_layers_in
from returnn.tf.util.activations import OutputWithActivation


def on_common_beam(options: dict[str, Any], *, network: Network) -> None:
    """Replaces layers in the options, in place, so that all belong to the latest of their beams."""
    outputs = [layer.output for layer in known_layers_in(options) if layer.output is not None]
    if network.beams.is_empty or len({beam.dim for beam in map(network.beams.of, outputs) if beam is not None}) < 2:
        return
    where = f"layer {network.get_absolute_name_prefix() + str(options.get('_name'))!r}"
    latest = network.beams.latest(outputs, where=where)
    targets = options.get("_target_layers", {})
    time_dim = network.get_inside_rec_time_dim(inside_loop=True)
    # Of targets with all frames of the loop, the layer sees one, which is brought to its own beam.
    all_frames = {
        key: layer for key, layer in targets.items() if time_dim is not None and time_dim in layer.output.dims
    }
    map_layers(options, lambda layer: on_beam(layer, latest))
    if all_frames:
        options["_target_layers"].update(all_frames)


def merge_beams(network: Network) -> None:
    """Merges the beam into the batch axis, in the outputs of all layers of the outermost network and of loops."""
    axes: dict[Dim, BeamAxis] = {}
    networks = (network, *all_extra_nets(network))  # a choice can search in each of them, whatever `search_flag` says
    layers = {id(layer): layer for net in networks for layer in net.get_all_layers_deep()}
    for layer in layers.values():
        is_in_step = any(net.inside_rec_time_dim is not None for net in layer.network.get_network_hierarchy())
        if is_in_step or layer.output is None or layer.output.raw_tensor is None:
            continue
        axis = BeamAxis.of([layer.output])
        if axis is not None:
            axis = axes.setdefault(axis.beam, axis)  # one for all layers, as their dims are to stay equal
            layer.output = axis.merge(layer.output)
            act = layer.output_before_activation
            if layer.loss is not None and act is not None and act.before is not None:
                before = axis.merge(act.before)
                layer.output_before_activation = OutputWithActivation(before, act.act_func, act.act_func_opts)
