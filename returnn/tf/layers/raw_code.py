"""
The border to the user's own code, which works on raw TensorFlow tensors.

A tensor goes out with its axes in a known order. What comes back is described by a template: that of the sources, or
what the config says in `out_type`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import tensorflow as tf

from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.beam_axis import BeamAxis
from returnn.tf.layers.broadcasting import without_broadcast_dims
from returnn.tf.util import basic
from returnn.tf.util.activations import RAW_ACTIVATIONS
from returnn.tf.util.error_text import error_text
from returnn.tf.util.tf1_names import add_tf1_names
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

if TYPE_CHECKING:
    from returnn.tf.layers.layer_base import LayerBase


def template_of_user_code(layer: LayerBase, sources: Sequence[Tensor]) -> Tensor:
    """:return: what the code of an `eval` is expected to return: the dims of all sources, changed by `out_type`"""
    common = Tensor.get_common_data(without_broadcast_dims(layer, sources), name=layer.name)
    assert common is not None
    common = common.copy_template(dtype=sources[0].dtype)
    common.version = 1
    common.sparse_dim = sources[0].sparse_dim
    options = dict(layer._out_type or {})
    n_out: Any = layer._n_out
    if n_out not in (NotSpecified, None):
        options.setdefault("dim", n_out)
    if layer._out_dim is not None and layer._out_dim not in common.dims:
        return _with_feature_dim(common, layer._out_dim)
    return _with_options(layer, common, options) if options else common


def call_user_code(
    layer: LayerBase, code: str | Callable[..., Any], sources: Sequence[Tensor], *, names: Mapping[str, Any]
) -> Tensor:
    """
    :param layer: the layer that the code belongs to
    :param code: expression or function, see `EvalLayer`
    :param sources: outputs of the sources
    :param names: more names for the code
    :return: what it returns, as tensor
    """
    beam = BeamAxis.of(sources)
    if beam is not None:
        return beam.split(call_user_code(layer, code, [beam.merge(x) for x in sources], names=names))
    template = template_of_user_code(layer, sources)
    if get_selected_backend() == "template":
        return template
    fitting = without_broadcast_dims(layer, sources)
    common = Tensor.get_common_data(fitting)
    assert common is not None

    def source(i: int, auto_convert: bool = True, enforce_batch_major: bool = False, as_data: bool = False) -> Any:
        if not 0 <= i < len(sources):
            raise ConfigError(f"{layer.where()}: source({i}): there are {len(sources)} sources.")
        data = sources[i]
        if as_data:
            return data
        if enforce_batch_major:
            return data.copy_as_batch_major().raw_tensor
        return broadcast_raw(fitting[i], common) if auto_convert else data.raw_tensor

    if layer.output is None or layer.output.raw_tensor is None:
        layer.output = template.copy_template()  # the code may want to know what it looks like
    known = {"source": source, "self": layer, "network": layer.network, "name": layer.name, "output": template, **names}
    value = code(**known) if callable(code) else _evaluate(layer, code, {**_names_in_eval(), **known})
    if isinstance(value, Tensor):
        return value
    # The code may have set other lengths in `self.output`.
    out = (template if layer.output is None else layer.output).copy_template()
    value = tf.convert_to_tensor(value)
    dtype = value.dtype.base_dtype.name
    if dtype != out.dtype:
        if "dtype" in (layer._out_type or {}):
            raise ConfigError(f"{layer.where()}: the result has the dtype {dtype}, but out_type says {out.dtype!r}.")
        out = out.copy_template(dtype=dtype)
    if value.shape.ndims is not None and value.shape.ndims != len(out.dims):
        raise ConfigError(
            f"{layer.where()}: the result has {value.shape.ndims} axes, expected {out}.\n  Give out_type."
        )
    out.raw_tensor = value
    return out


def broadcast_raw(x: Tensor, common: Tensor) -> Any:
    """:return: raw tensor with all axes of `common`, of size 1 where x does not have them"""
    return x.copy_compatible_to_dims_raw(common.dims)


@functools.cache
def _names_in_eval() -> dict[str, Any]:
    """:return: what an expression can use: TensorFlow, our helpers for raw tensors, activation functions"""
    add_tf1_names()
    modules = {"tf": tf, "tf_compat": tf.compat, "tf_util": basic, "numpy": numpy, "np": numpy}
    return {**RAW_ACTIVATIONS, **vars(basic), **modules}


def _evaluate(layer: LayerBase, code: str, namespace: dict[str, Any]) -> Any:
    try:
        return eval(code, namespace)
    except ConfigError:
        raise
    except Exception as exc:  # whatever the code of a user does
        raise ConfigError(f"{layer.where()}: eval {code!r}: {error_text(exc)}") from exc


def _with_options(layer: LayerBase, common: Tensor, options: dict[str, Any]) -> Tensor:
    """:return: the template that `out_type` describes; dims which it only gives the size of are those of the sources"""
    dtype = options.get("dtype") or (common.dtype if not options.get("sparse") or common.sparse else "int32")
    dims: list[Dim] = list(common.dims)
    explicit = options.get("dims") or options.get("dim_tags")
    sparse = options.get("sparse", options.get("sparse_dim") is not None or (common.sparse and "dim" not in options))
    if explicit is not None:
        dims = list(explicit)
    elif "shape" in options:
        dims = _dims_of_shape(layer, common, options)
    elif (
        options.get("dim") is not None
        and not sparse
        and common.feature_dim is not None
        and common.dim != options["dim"]
    ):
        return _with_feature_dim(common, layer.output_feature_dim(options["dim"])).copy_template(dtype=dtype)
    elif sparse and not common.sparse and common.feature_dim_axis is not None:
        dims.pop(common.feature_dim_axis)
    out = Tensor(layer.name, dims=dims, dtype=dtype, version=1)
    if sparse:
        out.sparse_dim = options.get("sparse_dim") or common.sparse_dim
        if options.get("dim") is not None and (out.sparse_dim is None or out.sparse_dim.dimension != options["dim"]):
            out.sparse_dim = layer.output_feature_dim(options["dim"])
    for name in ("time_dim_axis", "feature_dim_axis"):
        if name in options:
            setattr(out, name, options[name])
    return out


def _dims_of_shape(layer: LayerBase, common: Tensor, options: dict[str, Any]) -> list[Dim]:
    batch = [d for d in common.dims if d.is_batch_dim()]
    free = [d for d in common.dims if not d.is_batch_dim()]
    dims: list[Dim] = []
    for i, size in enumerate(options["shape"]):
        known = next((d for d in free if d.dimension == size), None)
        if known is not None:
            free.remove(known)
        is_last = i == len(options["shape"]) - 1
        kind = Dim.Types.Feature if is_last and size is not None and not options.get("sparse") else Dim.Types.Spatial
        dims.append(known or layer.new_dim(f"axis{i}", size, kind=kind))
    batch_axis = options.get("batch_dim_axis", 0 if batch else None)
    if batch and batch_axis is not None:
        dims.insert(batch_axis, batch[0])
    return dims


def _with_feature_dim(common: Tensor, dim: Dim) -> Tensor:
    axis = common.feature_dim_axis
    if axis is None:
        out = common._insert_dim(dim, len(common.dims))
        out.feature_dim_axis = len(common.dims)
    else:
        out = common.copy_template_replace_dim_tag(axis, dim)
        out.feature_dim_axis = axis
    out.sparse_dim = None
    return out
