"""
Where beams meet the rest of a network.

The sources of a layer may come from different steps of a search; they are brought to the latest one. And at the border
to code that sees raw tensors, batch and beam are one axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.layer_base import LayerBase
from returnn.tf.layers.layer_options import map_layers
from returnn.tf.layers.search_choices import on_beam
from returnn.tf.util.activations import OutputWithActivation

if TYPE_CHECKING:
    from returnn.tf.network.network import TFNetwork


def on_common_beam(layer_class: type[LayerBase], options: dict[str, Any], *, network: TFNetwork) -> None:
    """Replaces layers in the options, in place, so that all belong to the latest of their beams."""
    found: list[LayerBase] = []
    map_layers(layer_class, options, lambda layer: found.append(layer) or layer)
    outputs = [layer.output for layer in found if layer.output is not None]
    if len({dim for x in outputs for dim in x.dims if dim.is_beam_dim()}) < 2:
        return
    where = f"layer {network.get_absolute_name_prefix() + str(options.get('_name'))!r}"
    latest = network.beams.latest(outputs, where=where)
    map_layers(layer_class, options, lambda layer: on_beam(layer, latest))


def merge_beams(network: TFNetwork) -> None:
    """Merges the beam into the batch axis, in the outputs of all layers of the outermost network and of loops."""
    merged_dims: dict[Any, Dim] = {}
    networks = (network, *network.all_extra_nets())  # a choice can search in each of them, whatever `search_flag` says
    layers = {id(layer): layer for net in networks for layer in net.get_all_layers_deep()}
    for layer in layers.values():
        is_in_step = any(net.inside_rec_time_dim is not None for net in layer.network.get_network_hierarchy())
        if is_in_step or layer.output is None or layer.output.raw_tensor is None:
            continue
        if any(dim.is_beam_dim() for dim in layer.output.dims):
            layer.output = merged_beam(layer.output, merged_dims)
            act = layer.output_before_activation
            if layer.loss is not None and act is not None and act.before is not None:
                before = merged_beam(act.before, merged_dims)
                layer.output_before_activation = OutputWithActivation(before, act.act_func, act.act_func_opts)


def merged_beam(x: Tensor, merged_dims: dict[Any, Dim] | None = None) -> Tensor:
    """
    :param x: [B, beam, ...]
    :param merged_dims: dims that were made for this before
    :return: [B * beam, ...]; dims with lengths per sequence have lengths per hypothesis
    """
    merged_dims = {} if merged_dims is None else merged_dims
    batch, beam = x.get_batch_dim_tag(), next(dim for dim in x.dims if dim.is_beam_dim())
    both = batch * beam
    axis = x.batch_dim_axis
    out, _ = rf.merge_dims(x, dims=[batch, beam], out_dim=both)
    out = out.copy_move_axis(out.dims.index(both), min(axis or 0, len(out.dims) - 1))
    for dim in list(out.dims):
        lengths = dim.dyn_size_ext if dim.size is None and dim != both else None
        if lengths is None or batch not in lengths.dims:
            continue
        key = (dim, beam)
        if key not in merged_dims:
            for missing in (batch, beam):
                if missing not in lengths.dims:
                    lengths = rf.expand_dim(lengths, missing)
            merged_dims[key] = Dim(None, name=dim.name or str(dim), kind=dim.kind)
            merged_dims[key].dyn_size_ext = rf.merge_dims(lengths, dims=[batch, beam], out_dim=both)[0]
        feature, time = out._feature_dim_axis, out._time_dim_axis
        position = out.dims.index(dim)
        raw = out.raw_tensor
        out = out.copy_template_replace_dim_tag(position, merged_dims[key])
        out.raw_tensor = raw
        out._feature_dim_axis, out._time_dim_axis = feature, time
    return out
