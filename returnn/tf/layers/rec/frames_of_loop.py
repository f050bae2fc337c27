"""The frames of a recurrence: the dim that it goes over, and how many there are at most (`max_seq_len`)."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim import single_step_dim
from returnn.tf.layers.core.floors.layer_core import target_keys
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.registry import is_choice
from returnn.tf.layers.rec.rec_unstack import declared_time_dim
from returnn.tf.layers.structure.unavailable_data import check_value_of_target, require_available
from returnn.util.errors import ConfigError

_NETWORKS_INSIDE = (
    "subnetwork",
    "unit",
    "true_layer",
    "false_layer",
)  # options; "base:" is the time step for their layers


def find_time_dim(network: Network, source: Tensor, axis: Dim | str | None) -> Dim | None:
    """
    :param network: of the layer
    :param source: of the layer
    :param axis: option of this name
    :return: the dim to go over, None for a single step
    """
    loop_dim = network.get_inside_rec_time_dim(inside_loop=False)
    is_inside = network.get_inside_rec_time_dim(inside_loop=True) is not None
    dim_of_step = None if is_inside else loop_dim
    if axis is None:
        around = [net.over_rec_time_dim for net in network.get_network_hierarchy()]  # one frame does not have them
        rest = source
        for dim in [dim for dim in dict.fromkeys(around) if dim is not None and dim in source.dims]:
            rest = rest.copy_template_excluding_axis(rest.get_axis_from_description(dim))
        if rest is not source:
            rest.time_dim_axis = rest._guess_time_dim_axis()
        own = rest.get_time_dim_tag() if rest.have_time_axis() else None
        return dim_of_step if own is None else own
    if axis is single_step_dim or (isinstance(axis, Dim) and axis == loop_dim):
        return dim_of_step
    return source.get_dim_tag_from_description(axis)


def find_time_dim_without_source(layer: LayerBase, unit: Mapping[str, Any], axis: Dim | None) -> tuple[Dim, bool]:
    """
    :param layer: a loop without source
    :param unit: options of the layers of a time step
    :param axis: the dim that the config says the loop goes over
    :return: the dim to go over; whether its lengths are known before the loop
    """
    declared = declared_time_dim(unit, layer.network)
    if declared is not None:
        return declared, True
    if axis is not None and "end" not in unit and not axis.is_dim_known():
        _make_layers_around_until_known(axis, layer.network, unit)
    if axis is not None and axis.is_dim_known():
        return axis, True
    target = None if _search_decides_length(layer, unit) else _target_with_length(layer, unit)
    if target is None:
        return axis or layer.new_dim("time"), False
    dim = target.get_time_dim_tag()
    if dim.size is None and dim.dyn_size is None:
        check_value_of_target(layer, target)
    if axis is not None:
        axis.declare_same_as(dim)
    return dim, True


def _make_layers_around_until_known(axis: Dim, network: Network, unit: Mapping[str, Any]) -> None:
    """
    A layer that the time step reads can be the one that says how long the dim is, such as frames that another loop has
    made. They are made in any case.
    """
    for name in _names_around(unit):
        if axis.is_dim_known():
            return
        network.construct_layer(network.layers_desc, name)


def _names_around(value: Any) -> Iterator[str]:
    """:return: names of layers next to the loop, as layers of the time step call them in any of their options"""
    if isinstance(value, str) and value.startswith("base:"):
        yield value.removeprefix("base:")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _NETWORKS_INSIDE:
                yield from _names_around(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _names_around(item)


def _search_decides_length(layer: LayerBase, unit: Mapping[str, Any]) -> bool:
    """:return: whether the layer "end" says how long hypotheses are; not if they follow the target"""
    choices = _choices_in(unit)
    follows_target = any(desc.get("cheating") or desc.get("search") is False for desc in choices)
    searches = any(desc.get("search", layer.network.search_flag) for desc in choices)
    return searches and "end" in unit and not follows_target


def _target_with_length(layer: LayerBase, unit: Mapping[str, Any]) -> Tensor | None:
    """:return: the target, if there is one and it has frames"""
    network = layer.network
    targets = [desc.get("target") for desc in _choices_in(unit)]
    key = layer.size_target or layer.target or (unit.get("output") or {}).get("target") or (targets or [None])[0]
    key = key[0] if isinstance(key, (list, tuple)) else key
    if key is not None and key.startswith("layer:"):
        name = key.removeprefix("layer:").removeprefix("base:")  # as a layer of the time step would say it
        target = network.construct_layer(network.layers_desc, name).output
    elif key is not None and (":" in key or _is_data(key, network, unit)):
        target = layer.get_target_value(key)
    else:
        return None
    return target if target is not None and target.have_time_axis() else None


def _is_data(key: str, network: Network, unit: Mapping[str, Any]) -> bool:
    """
    :return: whether there is such data. A layer that registers it may come later in the net dict, and is made now. Not
        if the loop can go on to its end and there are no losses: it may be made of targets, which forwarding lacks
    """
    if network.get_root_network().extern_data.has_data(key):
        return True
    has_losses = network.eval_flag or network.is_training_objective
    return (has_losses or "end" not in unit) and not network.unknown_targets(key)


def find_targets_of_frames(layer: LayerBase, unit: Mapping[str, Any]) -> frozenset[str]:
    """:return: keys of targets of the loop and of its layers"""
    return frozenset({layer.size_target or "", *(layer.targets or ()), *_targets_in(unit)})


def _targets_in(unit: Mapping[str, Any]) -> set[str]:
    """:return: targets of all layers of the time step, also of those in subnetworks, conditions and masks"""
    found: set[str] = set()
    for desc in unit.values():
        if isinstance(desc, dict):
            found.update(target_keys(desc.get("target")))
            inner = desc.get("subnetwork")
            found |= _targets_in(inner) if isinstance(inner, dict) else set()
            parts = {key: desc.get(key) for key in ("unit", "true_layer", "false_layer")}
            found |= _targets_in({key: x for key, x in parts.items() if isinstance(x, dict) and "class" in x})
    return found


def _choices_in(unit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """:return: options of all choices of the time step, also of those in subnetworks"""
    found: list[dict[str, Any]] = []
    for desc in unit.values():
        if isinstance(desc, dict) and is_choice(desc.get("class")):
            found.append(desc)
        elif isinstance(desc, dict) and isinstance(desc.get("subnetwork"), dict):
            found += _choices_in(desc["subnetwork"])
    return found


def evaluate_limit(layer: LayerBase, max_seq_len: Any, via: LayerBase | None, beam: Dim | None) -> int | Tensor | None:
    """
    :param layer: the loop
    :param max_seq_len: option of this name: number, tensor, or expression
    :param via: layer whose output it is
    :param beam: of a search around the loop, each hypothesis of which can have a limit of its own
    :return: largest number of frames, of all sequences or of each: [B], [B, beam]; None if there is none
    """
    limit: Any
    if via is not None:
        limit = via.output
    else:
        limit = _evaluate_expression(layer, max_seq_len, beam) if isinstance(max_seq_len, str) else max_seq_len
    if limit is None or isinstance(limit, int):
        return limit
    batch = layer.network.step.batch_dims()
    if tf.is_tensor(limit) and limit.shape.rank in (0, 1, 2):
        dims = [[], batch, [*batch, beam]][limit.shape.rank]
        limit = Tensor("max_seq_len", dims=dims, dtype=limit.dtype.name, raw_tensor=limit)
    is_limit = isinstance(limit, Tensor) and limit.dtype.startswith("int")
    limit = _for_hypotheses(layer, limit, beam) if is_limit else limit
    if not is_limit or not set(limit.dims) <= {*batch, beam}:
        raise ConfigError(f"{layer.where()}: option 'max_seq_len': expected integers, one or [B], got {limit!r}.")
    return rf.cast(limit, "int32")


def check_limit(layer: LayerBase, max_seq_len: Any) -> None:
    """
    :param layer: a loop whose length is not known before
    :param max_seq_len: option of this name
    :raises ConfigError: if the expression names layers that are not there, or is none
    """
    if not isinstance(max_seq_len, str):
        return
    try:
        nodes = list(ast.walk(ast.parse(max_seq_len.strip(), mode="eval")))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        known = {"max_len_from", "tf", "self", *own, *dir(builtins)}
        unknown = [node.id for node in names if node.id not in known]
        if unknown:
            raise NameError(f"name {unknown[0]!r} is not defined")
    except (NameError, SyntaxError) as exc:
        raise _wrong_limit(layer, max_seq_len, exc) from exc
    for name in layers_in_limit(nodes):
        _look_at_data(layer, name, layer_of_limit(layer, name).output)


def layers_in_limit(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """
    :param nodes: of the expression
    :return: arguments of `max_len_from`
    """
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "max_len_from":
            for arg in node.args:
                if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                    yield arg.value


def _look_at_data(layer: LayerBase, name: str, output: Tensor) -> None:
    is_data = name.removeprefix("base:").startswith("data:")
    if is_data and not output.available_for_inference:
        layer.warning = (
            f"{layer.where()}: option 'max_seq_len': {name!r} is what the search should find. It is told how long that "
            "is, which is not known where the model is used."
        )


def _wrong_limit(layer: LayerBase, expression: str, exc: Exception) -> ConfigError:
    return ConfigError(
        f"{layer.where()}: option 'max_seq_len': {expression!r}: {exc}.\n"
        "  Possible: a number, or an expression with max_len_from('base:layer')."
    )


def _evaluate_expression(layer: LayerBase, expression: str, beam: Dim | None) -> Any:
    """:return: raw, (B,) or scalar; (B, beam), if there are lengths of hypotheses in it"""
    is_about_hypotheses = False

    def max_len_from(name: str, *, dims: Sequence[Dim]) -> Any:
        nonlocal is_about_hypotheses
        time_dim = _time_dim_with_lengths(layer_of_limit(layer, name))
        if time_dim.dyn_size_ext is None or layer.network.get_config().options.search_depends_on_batch:
            return time_dim.get_dim_value()
        lengths = _for_hypotheses(layer, time_dim.get_size_tensor(), beam)
        is_about_hypotheses |= beam in lengths.dims
        others = [dim for dim in lengths.dims if dim not in dims]
        lengths = rf.reduce_max(lengths, axis=others) if others else lengths
        return rf.expand_to(lengths, dims).copy_compatible_to_dims_raw(dims) if lengths.dims else lengths.raw_tensor

    def evaluate(dims: Sequence[Dim]) -> Any:
        return eval(expression, {"max_len_from": partial(max_len_from, dims=dims), "tf": tf, "self": layer})

    batch = layer.network.step.batch_dims()
    try:
        limit = evaluate(batch)
        return evaluate([*batch, beam]) if beam is not None and is_about_hypotheses else limit
    except (NameError, SyntaxError, TypeError, AttributeError) as exc:
        raise _wrong_limit(layer, expression, exc) from exc


def _time_dim_with_lengths(layer: LayerBase) -> Dim:
    """:raises TargetNotAvailable: if there are no lengths, as the data that they are of is not there"""
    time_dim = layer.output.get_time_dim_tag()
    if time_dim.dyn_size_ext is not None and time_dim.dyn_size is None:
        require_available(layer)
    return time_dim


def _for_hypotheses(layer: LayerBase, x: Tensor, beam: Dim | None) -> Tensor:
    """
    :param x: of sequences, or of the hypotheses of some search
    :param beam: that is known for each hypothesis
    :return: [B, beam], if these are known for x; otherwise [B], of several hypotheses the largest one
    """
    beams = layer.network.beams
    x = beams.for_later(x, None if beam is None else beams.get(beam))
    others = [dim for dim in x.dims if dim.is_beam_dim() and dim != beam]
    return rf.reduce_max(x, axis=others) if others else x


def layer_of_limit(layer: LayerBase, name: str) -> LayerBase:
    """
    :param layer: the loop
    :param name: argument of `max_len_from`
    :return: layer next to the loop, named as in the time step; if there is none, "base:" is one further out
    """
    network = layer.network
    net_dict, inner = network.layers_desc, name.removeprefix("base:")
    is_found = inner.startswith(("data", "base:")) or inner.partition("/")[0] in net_dict
    is_found |= network.parent_net is None  # then the error is about this name
    return network.construct_layer(net_dict, inner if is_found else name)
