"""Checks of the output of a layer against what the config promised."""

from __future__ import annotations

import inspect
from typing import Any

from returnn.tensor import Tensor
from returnn.tensor.marked_dim import OptionalDim
from returnn.tensor.tensor_base import TensorBase
from returnn.tf.layers.core.floors.layer_core import LayerCore
from returnn.util.errors import ConfigError, check_known
from returnn.util.not_specified import NotSpecified

_OPTIONS = {  # of `out_type`: those of a tensor, and the ways to describe its axes by sizes
    *inspect.signature(TensorBase).parameters,
    "placeholder",
    "shape",
    "dim",
    "dim_tags",
    "batch_dim_axis",
    "sparse",
    "same_dim_tags_as",
    "size_placeholder",
    "auto_create_placeholders",
}


def check_output(layer: LayerCore, output: Tensor, declared: Tensor | None) -> None:
    """
    :param layer: the layer
    :param output: what it computed
    :param declared: the template which was given for it, if any
    :raises ConfigError: if the output is not what `n_out`, `out_dim`, `out_type` or `out_shape` say
    """
    n_out: Any = layer._n_out
    if n_out not in (NotSpecified, None) and output.dim != n_out:
        raise ConfigError(f"{layer.where()}: option 'n_out' is {n_out}, but the output is {output}.")
    if layer._out_dim is not None and layer._out_dim not in (output.feature_dim_or_sparse_dim, *output.dims):
        raise ConfigError(f"{layer.where()}: option 'out_dim' is {layer._out_dim}, but the output is {output}.")
    _check_out_type(layer, output)
    if layer._out_shape is not None:
        output.verify_out_shape({*layer._out_shape, *_dims_beside_a_frame(layer, output)})
    if declared is not None and set(declared.dims) != set(output.dims):
        raise ConfigError(f"{layer.where()}: the output was said to be {declared}, but it is {output}.")


def _dims_beside_a_frame(layer: LayerCore, output: Tensor) -> list[OptionalDim]:
    """:return: dims that `out_shape` does not know: of the frames, if it is all at once; and of the hypotheses"""
    dims = [dim for dim in output.dims if dim.is_beam_dim()]
    is_step = layer.network.get_inside_rec_time_dim(inside_loop=True) is not None
    loop_dim = None if is_step else layer.network.get_inside_rec_time_dim(inside_loop=False)
    if loop_dim is not None and loop_dim in output.dims:
        lengths = loop_dim.dyn_size_ext
        dims += [loop_dim, *(dim for dim in (lengths.dims if lengths is not None else ()) if dim not in output.dims)]
    return [OptionalDim(dim) for dim in dims]


def _check_out_type(layer: LayerCore, output: Tensor) -> None:
    options = layer._out_type if isinstance(layer._out_type, dict) else {}
    for key, value in options.items():
        check_known("option", key, _OPTIONS, where=f"{layer.where()}: option 'out_type'")
        if key not in ("dtype", "sparse", "dim"):
            continue  # of other layouts of the same
        actual = getattr(output, key)
        if value is not None and actual != value:
            raise ConfigError(f"{layer.where()}: option 'out_type': {key!r} is {value!r}, but the output is {output}.")
