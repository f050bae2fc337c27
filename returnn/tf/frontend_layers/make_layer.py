"""Makes layers from options, as in a net dict, with tensors in place of names of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tensor.batch_info import BatchInfo
from returnn.tf.frontend_layers.debug_eager_mode import is_debug_eager_mode_enabled
from returnn.tf.frontend_layers.layer import Layer, LayerDictRaw, layers_in
from returnn.tf.frontend_layers.template_of_layer import ReturnnConstructTemplateException, infer_template
from returnn.util.errors import UserError

__all__ = [
    "ReturnnConstructTemplateException",
    "make_layer",
    "make_sub_layer",
    "register_extern_data",
    "set_lengths_by_layer",
]

# These ask more of a source than its output, or the lengths of its dims.
_NOT_ALONE = ("variable_assign", "variable_read", "rec_last_output", "length", "range_from_length")


def make_layer(
    layer_dict: LayerDictRaw,
    *,
    name: str | Layer | None = None,
    out: Tensor[Any] | None = None,
    predefined_out_data: Tensor[Any] | None = None,
    name_ctx_ignore_top_stack_frames: int = 0,
) -> Tensor[Any]:
    """
    :param layer_dict: options, with tensors in place of names of layers
    :param name: suggestion; default: the class. Or the place where it goes
    :param out: this tensor becomes the output; default: a new one
    :param predefined_out_data: what the output looks like; default: what the layer class says
    :param name_ctx_ignore_top_stack_frames: so many calls of modules, from the innermost on, give it no name
    :return: the output of the new layer
    :raises ReturnnConstructTemplateException: if the layer class cannot say what the output looks like
    """
    if isinstance(name, Layer):
        layer = name
    else:
        around = Layer.current_ctx(ignore_top_stack_frames=name_ctx_ignore_top_stack_frames + 1)
        layer = around.get_new_child(name or layer_dict["class"])
    layer.layer_dict = layer_dict
    try:
        template = out if out is not None else predefined_out_data
        if template is None:
            template = infer_template(layer)
        elif is_debug_eager_mode_enabled():
            layer.debug_layer = _checked(layer, template)
    except Exception:
        assert layer.parent is not None
        del layer.parent.children[layer.name or ""]
        raise
    result = out if out is not None else template.copy_template(layer.name)
    layer.set_tensor(result)
    for source in layers_in(layer_dict):
        source.usages.append(layer)
    return result


def _checked(layer: Layer, template: Tensor[Any]) -> Tensor[Any] | None:
    """:return: what the layer class says about the output; None inside of loops, where a layer is not on its own"""
    if Layer.inner_control_flow() is not None or (layer.layer_dict or {}).get("class") in _NOT_ALONE:
        return None
    own = infer_template(layer)
    if own.dims_set != template.dims_set or own.dtype != template.dtype:
        raise ReturnnConstructTemplateException(
            f"layer {layer.get_abs_name()!r}: puts out {own}, but the operation is expected to give {template}."
        )
    return own


def make_sub_layer(layer: Layer, name: str, template: Tensor[Any]) -> Tensor[Any]:
    """:return: what the layer has beside its output, as "layer/name" """
    child = layer.get_child(name)
    child.virtual = True
    out = template.copy_template(name)
    child.set_tensor(out)
    return out


def register_extern_data(data: Tensor[Any]) -> Tensor[Any]:
    """
    :param data: template; its name is the key
    :return: the data of this key, in the current root
    :raises UserError: if there is other data of this key
    """
    root = Layer.top().root
    known = root.extern_data.get(data.name)
    if known is not None:
        if known.dims != data.dims or known.dtype != data.dtype:
            raise UserError(f"extern data {data.name!r}: is {known} already, and cannot be {data} as well.")
        return known
    out = data.copy_template()
    layer = root.get_child(f"data:{data.name}")
    layer.virtual = True
    layer.set_tensor(out)
    root.extern_data[data.name] = out
    batch = next((dim for dim in out.dims if dim.is_batch_dim()), None)
    if root.global_batch is None and batch is not None:
        root.global_batch = BatchInfo.make_global_batch_info(-1 if batch.size is None else batch.size)
    with root:
        set_lengths_by_layer(out, out.dims)
    return out


def set_lengths_by_layer(source: Tensor[Any], dims: Sequence[Dim], *, over: Sequence[Dim] | None = None) -> None:
    """
    :param source: output of a layer, which makes these dims
    :param dims: get as lengths what layers of class "length" say, if they have none
    :param over: dims of the lengths, if these are not known; default: the batch
    """
    for dim in dims:
        if dim.size is not None or dim.is_derived() or dim.get_same_base().length_rule is not None:
            continue
        known = dim.dyn_size_ext
        if known is not None and isinstance(known.raw_tensor, Layer):
            continue
        if known is None:
            batch = [d for d in source.dims if d.is_batch_dim() and d is not dim]
            known = Tensor(
                f"{dim.name}:lengths", dims=() if dim.is_batch_dim() else batch if over is None else over, dtype="int32"
            )
        options = {"class": "length", "from": source, "axis": dim}
        layer = source.raw_tensor
        around = layer.parent if layer.parent is not None else layer
        lengths = known.copy_template()
        make_layer(options, name=around.get_new_child(f"{_plain(dim.name)}_length"), out=lengths)
        dim.dyn_size_ext = lengths


def _plain(name: str | None) -> str:
    return "".join(char if char.isalnum() or char == "_" else "_" for char in name or "dim")
