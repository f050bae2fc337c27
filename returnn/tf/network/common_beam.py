"""The sources of a layer may come from different steps of a search; they are brought to the latest one."""

from __future__ import annotations

from typing import Any

from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.layer_options import map_layers
from returnn.tf.layers.search.search_choices import on_beam
from returnn.tf.network.raw_layers import known_layers_in


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
