"""
Layers of a time step which the plan of a loop only sees as a whole, together with the layers inside of them.

A layer in "masked/lstm" gets other frames than those of the loop, if "masked" is computed for all frames at once. So it
cannot be anywhere else than the layer "masked" itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from returnn.tf.layers.loop.frame import Edge
from returnn.tf.layers.loop.graph import LoopGraph, LoopNode


def members_of_blocks(graph: LoopGraph) -> dict[str, str]:
    """:return: for each layer inside of another one which is seen as a whole, the path of the outermost such one"""
    outermost = sorted((path for path, node in graph.nodes.items() if node.is_one_block), key=len)
    found = {path: next((block for block in outermost if path.startswith(f"{block}/")), None) for path in graph.nodes}
    return {path: block for path, block in found.items() if block is not None}


def with_whole_blocks(graph: LoopGraph, members: Mapping[str, str]) -> LoopGraph:
    """
    :param graph: of all layers
    :param members: see `members_of_blocks`
    :return: the graph of the layers that are no members; a whole one needs what its members need
    """
    groups: dict[str, list[LoopNode]] = {path: [node] for path, node in graph.nodes.items() if path not in members}
    for path, block in members.items():
        groups[block].append(graph.nodes[path])
    return replace(graph, nodes={path: _joined(path, group, members) for path, group in groups.items()})


def _joined(path: str, group: list[LoopNode], members: Mapping[str, str]) -> LoopNode:
    edges = [Edge(edge.kind, members.get(edge.path, edge.path)) for node in group for edge in node.edges]
    makers = [members.get(maker, maker) for node in group for maker in node.makers_of_dims]
    return replace(
        group[0],
        edges=tuple(dict.fromkeys(edge for edge in edges if edge != Edge("same", path))),
        makers_of_dims=tuple(dict.fromkeys(maker for maker in makers if maker != path)),
        has_state=any(node.has_state for node in group),
        works_on_sequences=all(node.works_on_sequences for node in group),
        must_be_inside=next((node.must_be_inside for node in group if node.must_be_inside), ""),
    )
