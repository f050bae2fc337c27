"""
Layers of a time step which the plan of a loop only sees as a whole, together with the layers inside of them.

A layer in "masked/lstm" gets other frames than those of the loop, if "masked" is computed for all frames at once. So it
cannot be anywhere else than the layer "masked" itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from returnn.tf.layers.rec.frame import Edge
from returnn.tf.layers.rec.plan import LoopNode, LoopPlan, Placement


def members_of_blocks(paths: Collection[str], blocks: Collection[str]) -> dict[str, str]:
    """
    :param paths: of layers of the time step
    :param blocks: those which are seen as a whole
    :return: for each layer inside of another one which is seen as a whole, the path of the outermost such one
    """
    outermost = sorted(blocks, key=len)
    found = {path: next((block for block in outermost if path.startswith(f"{block}/")), None) for path in paths}
    return {path: block for path, block in found.items() if block is not None}


def with_whole_blocks(nodes: Mapping[str, LoopNode], members: Mapping[str, str]) -> dict[str, LoopNode]:
    """
    :param nodes: of all layers
    :param members: see `members_of_blocks`
    :return: nodes of the layers that are no members; a whole one needs what its members need
    """
    groups: dict[str, list[LoopNode]] = {path: [node] for path, node in nodes.items() if path not in members}
    for path, block in members.items():
        groups[block].append(nodes[path])
    return {path: _joined(path, group, members) for path, group in groups.items()}


def with_members(plan: LoopPlan, members: Mapping[str, str]) -> LoopPlan:
    """:return: the plan, with the members at the places of the layers that they are inside of"""
    placements = {
        path: Placement(path, plan.place_of(block), f"inside of {block!r}") for path, block in members.items()
    }
    return LoopPlan(plan.name, {**plan.placements, **placements})


def _joined(path: str, group: list[LoopNode], members: Mapping[str, str]) -> LoopNode:
    edges = [Edge(edge.kind, members.get(edge.path, edge.path)) for node in group for edge in node.edges]
    return replace(
        group[0],
        edges=tuple(dict.fromkeys(edge for edge in edges if edge != Edge("same", path))),
        has_state=any(node.has_state for node in group),
        works_on_sequences=all(node.works_on_sequences for node in group),
        must_be_inside=next((node.must_be_inside for node in group if node.must_be_inside), ""),
    )
