"""
Option `out_type`: what the output of a layer looks like that runs a user's own code.

It is a dict with options for `Tensor`, as far as these differ from what the sources have, or a function which returns
a `Tensor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_axes import LayerAxes
from returnn.tf.layers.options.broadcasting import with_common_dims
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified


def template_of_user_code(
    layer: LayerAxes, sources: Sequence[LayerAxes], names: Mapping[str, Any], beam: BeamAxis | None = None
) -> Tensor:
    """
    :param layer: the layer that the code belongs to
    :param sources: its sources, as the code knows them
    :param names: more arguments for a function
    :param beam: if the sources have the hypotheses of a search in their batch axis
    :return: what the code of an `eval` is expected to return: the dims of all sources, changed by `out_type`
    """
    tensors = [source.output for source in sources]
    common = Tensor.get_common_data(with_common_dims(layer, tensors), name=layer.name)
    assert common is not None
    common = common.copy_template(dtype=tensors[0].dtype).copy_with_roles(sparse_dim=tensors[0].sparse_dim)
    common.version = 1
    if callable(layer._out_type):
        return _by_function(layer, common, sources, names)
    options = dict(layer._out_type or {})
    if (
        common.sparse
        and "dim" in options
        and options.keys() <= {"dim", "dtype", "name"}
        and "float" not in options.get("dtype", "int")
    ):
        options.setdefault("sparse", True)  # labels stay labels, of another number
    n_out: Any = layer._n_out
    if n_out not in (NotSpecified, None):
        options.setdefault("dim", n_out)
    if layer._out_dim is not None and layer._out_dim not in common.dims:
        return _with_feature_dim(common, layer._out_dim)
    return _with_options_for_frames(layer, common, options, beam) if options else common


def _with_options_for_frames(
    layer: LayerAxes, common: Tensor, options: Mapping[str, Any], beam: BeamAxis | None
) -> Tensor:
    """:return: see `_with_options`, which is about one frame if this is all frames of a loop at once"""
    is_step = layer.network.get_inside_rec_time_dim(inside_loop=True) is not None
    loop_dim = None if is_step else layer.network.get_inside_rec_time_dim(inside_loop=False)
    if loop_dim is not None and beam is not None:
        loop_dim = beam.merged_dim(loop_dim)
    if loop_dim is None or loop_dim not in common.dims:
        return _with_options(layer, common, options)
    axis = common.dims.index(loop_dim)
    frame = _with_options(layer, common.copy_template_excluding_axis(axis), options)
    axis = min(axis, len(frame.dims))
    return frame._insert_dim(loop_dim, axis).copy_with_roles(time_dim=loop_dim)


def call_out_type(function: Any, *, name: str, where: str, **options: Any) -> Tensor:
    """
    :param function: as `out_type`
    :param name: of the layer
    :param where: how an error message begins
    :param options: options of the layer
    :return: what the function returns
    :raises ConfigError: if that is not a tensor
    """
    out = function(name=name, **options)
    if not isinstance(out, Tensor):
        raise ConfigError(f"{where}: option 'out_type': the function has to return a Data or Tensor, not {out!r}.")
    return out.copy_template(name=name)


def _by_function(layer: LayerAxes, common: Tensor, sources: Sequence[LayerAxes], names: Mapping[str, Any]) -> Tensor:
    """:return: what the function says. Its batch dim, and dims without lengths, are those of the sources."""
    out = call_out_type(
        layer._out_type,
        name=layer.name,
        where=layer.where(),
        network=layer.network,
        sources=sources,
        n_out=layer._n_out,
        out_dim=layer._out_dim,
        target=layer.target,
        size_target=layer.size_target,
        loss=layer.loss,
        **names,
    )
    # The function makes its dims anew in each call, but a layer has the same ones in each.
    dims = layer.own_dims.of_out_type.setdefault(common.dims, _dims_of_function(out, common))
    return Tensor(
        layer.name,
        dims=dims,
        dtype=out.dtype,
        sparse_dim=out.sparse_dim,
        time_dim_axis=out.time_dim_axis,
        feature_dim_axis=out.feature_dim_axis,
        version=1,
    )


def _dims_of_function(out: Tensor, common: Tensor) -> list[Dim]:
    free = [dim for dim in common.dims if dim.is_dynamic_seq_length() and not dim.is_batch_dim()]
    dims = []
    for dim in out.dims:
        if dim.is_batch_dim() and common.have_batch_axis():
            dim = common.get_batch_dim_tag()
        elif dim.size is None and dim.dyn_size_ext is None and dim not in common.dims and free:
            dim = free.pop(0)
        dims.append(dim)
    return dims


def _with_options(layer: LayerAxes, common: Tensor, options: Mapping[str, Any]) -> Tensor:
    """:return: the template that `out_type` describes; dims which it only gives the size of are those of the sources"""
    dtype = options.get("dtype") or (common.dtype if not options.get("sparse") or common.sparse else "int32")
    sparse = options.get("sparse", options.get("sparse_dim") is not None or (common.sparse and "dim" not in options))
    dim = options.get("dim")
    if common.sparse and not sparse:
        common = common.copy_template().copy_with_roles(sparse_dim=None)
    explicit = options.get("dims") or options.get("dim_tags")
    if "batch_dim_axis" in options and "shape" not in options:
        common = _with_batch_axis(common, options["batch_dim_axis"])
    has_dim = common.feature_dim is not None and common.feature_dim.dimension == dim
    if explicit is None and "shape" not in options and dim is not None and not sparse and not has_dim:
        return _with_feature_dim(common, layer.output_feature_dim(dim)).copy_template(dtype=dtype)
    dims: list[Dim] = list(common.dims)
    if explicit is not None:
        dims = list(explicit)
    elif "shape" in options:
        dims = _dims_of_shape(layer, common, options)
    elif sparse and not common.sparse and common.feature_dim_axis is not None:
        dims.pop(common.feature_dim_axis)
    sparse_dim = (options.get("sparse_dim") or common.sparse_dim) if sparse else None
    if sparse and dim is not None and (sparse_dim is None or sparse_dim.dimension != dim):
        sparse_dim = layer.output_feature_dim(dim)
    axes = {name: options[name] for name in ("time_dim_axis", "feature_dim_axis") if name in options}
    if not sparse and "shape" in options and explicit is None:
        axes.setdefault("feature_dim_axis", _last_static_axis(dims, options))
    return Tensor(layer.name, dims=dims, dtype=dtype, sparse_dim=sparse_dim, version=1, **axes)


def _with_batch_axis(common: Tensor, batch_axis: int | None) -> Tensor:
    """:return: common, with the batch axis there; without it for None"""
    axis = common.batch_dim_axis
    if axis is None:
        return common
    if batch_axis is None:
        return common.copy_template_excluding_axis(axis)
    return common.copy_template().copy_with_batch_dim_axis(batch_axis)


def _dims_of_shape(layer: LayerAxes, common: Tensor, options: Mapping[str, Any]) -> list[Dim]:
    batch = [d for d in common.dims if d.is_batch_dim()]
    free = [d for d in common.dims if not d.is_batch_dim()]
    dims: list[Dim] = []
    for i, size in enumerate(options["shape"]):
        known = next((d for d in free if d.dimension == size), None)
        if known is not None:
            free.remove(known)
        is_last = i == len(options["shape"]) - 1
        kind = Dim.Types.Feature if is_last and size is not None and not options.get("sparse") else Dim.Types.Spatial
        dims.append(known or layer.new_dim_beside(f"axis{i}", size, [*free, *dims], kind=kind))
    batch_axis = options.get("batch_dim_axis", _axis_of_batch(dims, common))
    if batch and batch_axis is not None:
        dims.insert(batch_axis, batch[0])
    return dims


def _axis_of_batch(dims: Sequence[Dim], common: Tensor) -> int:
    """:return: where the batch is among the dims: behind those that it is behind in the sources, such as the time"""
    before = common.dims[: common.batch_dim_axis or 0]
    return max((axis + 1 for axis, dim in enumerate(dims) if dim in before), default=0)


def _last_static_axis(dims: Sequence[Dim], options: Mapping[str, Any]) -> int | None:
    """:return: the last axis of fixed size, or of the size `dim`; None if there is none, or if `dim` is None"""
    dim = options.get("dim", NotSpecified)
    axes = [i for i, d in enumerate(dims) if d.size is not None and not d.is_batch_dim()]
    axes = [i for i in axes if dim is NotSpecified or dims[i].size == dim]
    return axes[-1] if axes else None


def _with_feature_dim(common: Tensor, dim: Dim) -> Tensor:
    axis = common.feature_dim_axis
    is_new = axis is None
    out = common._insert_dim(dim, len(common.dims)) if is_new else common.copy_template_replace_dim_tag(axis, dim)
    return out.copy_with_roles(feature_dim=dim, sparse_dim=None)
