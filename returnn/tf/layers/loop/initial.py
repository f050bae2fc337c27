"""Outputs and states before the first frame of a loop, in all the forms that a config can give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.structure.unavailable_data import require_available, require_lengths
from returnn.tf.layers.values.constant import zeros_like_template
from returnn.util.errors import ConfigError


class InitialOutput:
    """The initial value of a state which is the output before the first frame, as "prev:" of the layer sees it."""


_WORDS = ("zeros", "ones", "var", "keep_over_epoch", "keep_over_epoch_no_init", "apply(0)")


def initial_value(
    value: Any,
    template: Tensor,
    *,
    layer: LayerBase,
    get_layer: Callable[[str], LayerBase],
    apply_on_zeros: Callable[[], Tensor] | None = None,
) -> Tensor:
    """
    :param value: number, of which 0 is also the empty string; "zeros", "ones", "var" (a trained parameter),
        "keep_over_epoch" (where the last one ended), "apply(0)" (the layer on zeros); name of a layer; layer; tensor;
        array; function without arguments
    :param template: what it has to look like
    :param layer: the layer that it is for
    :param get_layer: function that gives the layer of a name
    :param apply_on_zeros: function that computes the layer on zeros
    :return: [dims of template]
    """
    if value is None or (isinstance(value, str) and value == "zeros"):
        value = 0
    if template.dtype == "string" and isinstance(value, (str, int)) and not value:
        return zeros_like_template(template)
    if isinstance(value, str) and value == "ones":
        value = 1
    if callable(value) and not hasattr(value, "output"):
        value = value()
    if isinstance(value, (bool, int, float, numpy.number)):
        require_lengths(layer, template.dims)
        return rf.full(dims=template.dims, fill_value=_as_dtype(value, template.dtype), dtype=template.dtype)
    if isinstance(value, str):
        value = _of_word(value, template, layer, get_layer, apply_on_zeros)
    if isinstance(value, LayerBase):
        require_available(value)
    if hasattr(value, "output"):
        if value.output.raw_tensor is None and rf.get_selected_backend() != "template":
            raise ConfigError(
                f"{layer.where()}: it begins with the layer {value.name!r}, which the loop computes in each frame.\n"
                "  Possible: a layer around the loop, 'base:...'. What a unit gets as its state in each frame is the"
                " option 'state'."
            )
        value = value.output
    if isinstance(value, numpy.ndarray):
        dims = [dim for dim in template.dims if dim.size is not None][-value.ndim :] if value.ndim else []
        value = rf.convert_to_tensor(value.astype(template.dtype), dims=dims)
    if not isinstance(value, Tensor):
        raise ConfigError(f"{layer.where()}: initial value {value!r}: expected a number, a layer, or one of {_WORDS}.")
    return _fitted(value, template, layer)


def _of_word(
    word: str,
    template: Tensor,
    layer: LayerBase,
    get_layer: Callable[[str], LayerBase],
    apply_on_zeros: Callable[[], Tensor] | None,
) -> Any:
    if word == "var":
        dims = [dim for dim in template.dims if dim.size is not None and not dim.is_beam_dim()]
        return layer.parameter(f"init_{layer.name}_var", dims, initial=0.0, dtype=template.dtype)
    if word == "apply(0)":
        if apply_on_zeros is None:
            raise ConfigError(f"{layer.where()}: 'apply(0)' is only possible for the initial output.")
        return apply_on_zeros()
    if word in ("keep_over_epoch", "keep_over_epoch_no_init"):
        raise ConfigError(f"{layer.where()}: {word!r}: there is nothing that could be kept here.")
    return get_layer(word)


def _fitted(value: Tensor, template: Tensor, layer: LayerBase) -> Tensor:
    """:return: value with all dims of the template"""
    beams = layer.network.beams
    value = beams.for_later(value, beams.of(template))
    for dim in list(value.dims):
        if dim not in template.dims:
            free = [d for d in template.dims if d not in value.dims and d.is_beam_dim() == dim.is_beam_dim()]
            other = [d for d in free if d.size == dim.size and d.size is not None]
            if len(other) != 1:
                raise ConfigError(f"{layer.where()}: the initial value {value} does not fit {template}.")
            value = rf.replace_dim(value, in_dim=dim, out_dim=other[0])[0]
    value = rf.expand_to(value, template.dims)
    if value.dtype != template.dtype:
        value = rf.cast(value, template.dtype)
    return value


def _as_dtype(value: Any, dtype: str) -> Any:
    if dtype == "bool":
        return bool(value)
    return int(value) if dtype.startswith(("int", "uint")) else float(value)


def applied_on_zeros(layer: LayerBase, network: Network, *, time_dim: Dim | None = None) -> Tensor:
    """
    :param layer: perhaps a template
    :param network: where it is computed
    :param time_dim: which the sources have, if they have all frames; it is applied on a single one
    :return: output of such a layer for sources that are 0
    """
    options = {k: v for k, v in layer.kwargs.items() if k not in ("name", "network", "output", "sources")}
    options.update(layer.options_on_zeros)
    frames = [
        x.copy_template_excluding_axis(x.get_axis_from_description(time_dim)) if time_dim in x.dims else x
        for x in (source.output for source in layer.sources)
    ]
    sources = [InternalLayer(name=x.name, network=network, output=zeros_like_template(x)) for x in frames]
    out = type(layer)(name=layer.name, network=network, sources=sources, **options).output
    if out.raw_tensor is None and rf.get_selected_backend() != "template":
        raise ConfigError(
            f"{layer.where()}: option 'initial_output': 'apply(0)': for zeros, it chooses nothing yet.\n"
            "  Possible: a label, or the name of a layer that gives one."
        )
    return out
