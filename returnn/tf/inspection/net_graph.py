"""A network as a graph of names: layers with what is inside of them, and who uses whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from returnn.tf.inspection.dims_text import dims_text
from returnn.tf.inspection.found_layers import FoundLayer
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.loop.compile import CompiledLoop


@dataclass
class Node:
    """A layer, or data."""

    name: str  # absolute
    layer_class: str
    output: str
    kind: str  # "layer", "data", "loop", "subnetwork"; in a loop "before", "inside", "after"
    note: str = ""
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Use:
    """One layer uses another one."""

    source: str
    user: str
    is_prev: bool = False  # of the time step before


@dataclass
class NetGraph:
    """The outermost nodes, and all uses."""

    nodes: list[Node]
    uses: list[Use]


def net_graph(layers: Sequence[FoundLayer]) -> NetGraph:
    """
    :param layers: of a network
    """
    nodes: dict[str, Node] = {}
    for found in layers:
        nodes[found.name] = _node_of(found)
    uses = list(dict.fromkeys(_uses(layers)))
    outputs = {name: text for found in layers for name, text in _data_outputs(found)}
    for use in uses:
        for name in (use.source, use.user):
            if name not in nodes:
                nodes[name] = Node(name, "data", outputs.get(name, ""), kind="data")
    top = []
    for name, node in nodes.items():
        parent = _parent(name, nodes)
        (top if parent is None else parent.children).append(node)
    uses = [use for use in uses if not (use.source.startswith(f"{use.user}/") or use.user.startswith(f"{use.source}/"))]
    _mark_containers(nodes.values())
    return NetGraph(top, uses)


def _node_of(found: FoundLayer) -> Node:
    place = found.placement
    kind = "loop" if found.loop is not None else (place.place if place is not None else "layer")
    note = f"{place.place} the loop: {place.reason}" if place is not None else ""
    return Node(found.name, found.class_name, dims_text(found.layer.output), kind=kind, note=note)


def _mark_containers(nodes: Iterable[Node]) -> None:
    for node in nodes:
        if node.children and node.kind != "loop":
            node.kind = "subnetwork"


def _parent(name: str, nodes: dict[str, Node]) -> Node | None:
    while "/" in name:
        name = name.rpartition("/")[0]
        if name in nodes:
            return nodes[name]
    return None


def _uses(layers: Sequence[FoundLayer]) -> Iterator[Use]:
    for found in layers:
        if found.loop is not None:
            yield from _uses_in_loop(found)
        if found.placement is None:
            inside = set() if found.loop is None else _base_layers(found.loop)
            for source in found.layer.get_dep_layers():
                if source in found.layer.sources or source.get_absolute_name() not in inside:
                    yield Use(_name_of(source), found.name)


def _base_layers(loop: CompiledLoop) -> set[str]:
    """:return: names of layers around that layers inside of the loop use"""
    return {edge.path for edges in loop.inferred.edges.values() for edge in edges if edge.kind == "base"}


def _uses_in_loop(found: FoundLayer) -> Iterator[Use]:
    assert found.loop is not None
    prefix = found.loop.inputs.prefix
    for path, edges in found.loop.inferred.edges.items():
        if path not in found.loop.plan.placements:
            continue
        for edge in edges:
            if edge.path == ":i":
                continue
            inner = {"data": f"{prefix}data:{edge.path}", "base": edge.path}.get(edge.kind, prefix + edge.path)
            yield Use(inner, prefix + path, is_prev=edge.kind == "prev")


def _name_of(layer: LayerBase) -> str:
    name = layer.get_absolute_name()
    key = getattr(layer, "data_key", None)
    return f"{name}:{key}" if name == "data" and key else name


def _data_outputs(found: FoundLayer) -> Iterator[tuple[str, str]]:
    if found.loop is not None and found.loop.inputs.source is not None:
        yield f"{found.loop.inputs.prefix}data:source", dims_text(found.loop.inputs.source)
    for source in found.layer.get_dep_layers():
        yield _name_of(source), dims_text(source.output)
