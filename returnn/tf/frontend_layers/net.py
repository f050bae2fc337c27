"""`Net`: a network of layers as option of another layer, and the net dict of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.frontend_layers.place import LayerDictRaw, NetDictRaw, Place
from returnn.util.errors import UserError

__all__ = ["LayerDictRaw", "Net", "NetDictRaw", "needed_layers"]


class Net:
    """A network: the root, or one inside of a layer."""

    def __init__(self, *, name_ctx: Place) -> None:
        """:param name_ctx: its place, whose children are its layers"""
        self.name_ctx = name_ctx

    def __repr__(self) -> str:
        return f"<Net {self.name_ctx.get_abs_name_repr()}>"

    def make_net_dict_raw(self) -> NetDictRaw:
        """:return: options of each layer that is needed, by name, with names of layers in place of tensors"""
        needed = needed_layers(self.name_ctx.root)
        _check_access(needed)
        net_dict = _net_dict(self.name_ctx, needed)
        if self.name_ctx.parent is None:
            _tell_unused(self.name_ctx, needed)
        return net_dict


def _check_access(needed: set[Place]) -> None:
    for place in needed:
        if place.require_global_access and not all(p.can_access_children for p in place.ancestors() if p is not place):
            raise UserError(
                f"layer {place.get_abs_name_repr()}: require_global_access is set, "
                "but it cannot be named from the root.\n"
                "  It is inside of a loop, a condition or masked computation. Make it outside."
            )


def _tell_unused(place: Place, needed: set[Place]) -> None:
    """Calls the hooks of layers that are left out, once."""
    for child in list(place.children.values()):
        _tell_unused(child, needed)
        if child not in needed and child.tensor is not None:
            while child.tensor_remove_unused_cleanup_hooks:
                child.tensor_remove_unused_cleanup_hooks.pop(0)(child.tensor)


def needed_layers(root: Place) -> set[Place]:
    """:return: what the outputs and losses of the root need, with all networks around it"""
    needed: set[Place] = set()
    todo = _roots(root)
    while todo:
        layer = todo.pop()
        if layer in needed:
            continue
        needed.add(layer)
        todo += layer.get_tensor_dependencies()
        if layer.parent is not None:
            todo.append(layer.parent)
        if layer.is_subnet and layer.layer_dict is not None:
            todo += _roots(layer)
        todo += [root for net in _nets_in(layer.layer_dict) for root in _roots(net.name_ctx)]
    return needed


def _roots(network: Place) -> list[Place]:
    """:return: what a network has to compute, whoever uses it"""
    marked = [x.raw_tensor for x in (*network.marked_outputs, *network.marked_losses)]
    return [*marked, *([network.children["output"]] if "output" in network.children else [])]


def _nets_in(value: Any) -> list[Net]:
    if isinstance(value, Net):
        return [value]
    if isinstance(value, Mapping):
        return [net for entry in value.values() for net in _nets_in(entry)]
    if isinstance(value, (list, tuple)):
        return [net for entry in value for net in _nets_in(entry)]
    return []


def _net_dict(network: Place, needed: set[Place]) -> NetDictRaw:
    result: NetDictRaw = {}
    for name, layer in network.children.items():
        if layer not in needed or layer.virtual:
            continue
        if layer.layer_dict is not None:
            result[name] = _resolved(layer.layer_dict, network, needed)
            if layer.custom_layer_name_scope is not None:
                result[name]["name_scope"] = layer.custom_layer_name_scope
        elif layer.is_call_of_module():
            inner = _net_dict(layer, needed)
            if inner:
                inner.setdefault("output", {"class": "copy", "from": next(reversed(inner))})
                result[name] = {"class": "subnetwork", "from": [], "subnetwork": inner}
                if layer.custom_layer_name_scope is not None:
                    result[name]["name_scope"] = layer.custom_layer_name_scope
    result.update(network.extra_net_dict)
    return result


def _resolved(value: Any, network: Place, needed: set[Place]) -> Any:
    """:return: the same, with names of layers in place of tensors, and net dicts in place of networks"""
    if isinstance(value, Net):
        return _net_dict(value.name_ctx, needed)
    if isinstance(value, Tensor):
        return value.raw_tensor.get_name_in_ctx(network)
    if hasattr(value, "get_name_in_ctx"):
        return value.get_name_in_ctx(network)
    if isinstance(value, Mapping):
        return {key: _resolved(entry, network, needed) for key, entry in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_resolved(entry, network, needed) for entry in value)
    return value
