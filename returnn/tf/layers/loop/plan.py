"""
The plan of a loop: which layers are computed before it, inside of it, and after it, and why.

A layer can be computed before the loop, for all frames at once, if everything that it uses is known then. It can be
computed after the loop if nothing inside needs it. What is left has to be inside. The plan is a plain value; nothing
here knows TensorFlow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal

from returnn.tf.layers.loop.blocks import members_of_blocks, with_whole_blocks
from returnn.tf.layers.loop.dims_of_frames import seeing_dims_of_frames
from returnn.tf.layers.loop.frame import Edge
from returnn.tf.layers.loop.graph import LoopGraph, LoopNode
from returnn.tf.layers.loop.selected_frames import mixing_frames

Place = Literal["before", "inside", "after"]


@dataclass(frozen=True)
class Placement:
    """Where one layer of a loop runs, and why."""

    layer: str
    place: Place
    reason: str


@dataclass(frozen=True)
class LoopPlan:
    """Where all layers of a loop run."""

    name: str
    placements: Mapping[str, Placement] = field(default_factory=dict)

    def at(self, place: Place) -> list[str]:
        """:return: the layers at this place"""
        return [p.layer for p in self.placements.values() if p.place == place]

    def place_of(self, path: str) -> Place:
        """:return: where the layer runs"""
        return self.placements[path].place

    def __str__(self) -> str:
        lines = [f"loop {self.name!r}:"]
        width = max((len(p.layer) for p in self.placements.values()), default=0)
        for place in ("before", "inside", "after"):
            for p in self.placements.values():
                if p.place == place:
                    lines.append(f"  {p.layer:<{width}}  {place:<6}  {p.reason}")
        return "\n".join(lines)


def make_plan(name: str, graph: LoopGraph, *, optimize: bool = True) -> LoopPlan:
    """
    :param name: of the loop
    :param graph: its layers
    :param optimize: whether layers are moved out of the loop
    """
    members = members_of_blocks(graph)
    graph = with_whole_blocks(graph, members)
    if optimize:
        placements = _placements(graph)
        while kept := mixing_frames(graph, placements) | seeing_dims_of_frames(graph, placements):
            graph = _kept_inside(graph, kept)
            placements = _placements(graph)
    else:
        placements = _inside_where_possible(graph, "option optimize_move_layers_out=False")
    for path, block in members.items():
        placements[path] = Placement(path, placements[block].place, f"inside of {block!r}")
    return LoopPlan(name, placements)


def _inside_where_possible(graph: LoopGraph, reason: str) -> dict[str, Placement]:
    """:return: all layers inside, but those which look ahead, and what these need, or what needs these"""
    placements = {path: Placement(path, "inside", reason) for path in graph.nodes}
    ahead = [path for path, node in graph.nodes.items() if node.looks_ahead]
    moved_out = _placements(graph) if ahead else {}
    for path in ahead:
        needed = _closure(graph, path, {}, "")
        users = [other for other in graph.nodes if path in _closure(graph, other, {}, "")]
        for other in {"before": needed, "after": users, "inside": []}[moved_out[path].place]:
            placements[other] = moved_out[other]
    return placements


def _kept_inside(graph: LoopGraph, reasons: Mapping[str, str]) -> LoopGraph:
    """:return: the graph, where some layers must be inside of the loop, with the reason"""
    nodes = {path: replace(graph.nodes[path], must_be_inside=reason) for path, reason in reasons.items()}
    return replace(graph, nodes={**graph.nodes, **nodes})


def check_plan(plan: LoopPlan, graph: LoopGraph) -> None:
    """Asserts that every layer is computed before those that use it."""
    order = {"before": 0, "inside": 1, "after": 2}
    for path, node in graph.nodes.items():
        for edge in node.edges:
            if edge.kind in ("same", "prev") and edge.path in graph.nodes:
                used, user = order[plan.place_of(edge.path)], order[plan.place_of(path)]
                assert used <= user, f"{plan.name}: {path!r} uses {edge}, which is computed later"


def _placements(graph: LoopGraph) -> dict[str, Placement]:
    before = _before(graph)
    inside = _inside(graph, before)
    while unreadable := _read_in_loop(graph, before, inside):
        before = _before(graph, without=unreadable | (set(graph.nodes) - set(before)))
        inside = _inside(graph, before)
    before, inside = _collocate(graph, before, inside)
    placements = {}
    for path in graph.nodes:
        if path in before:
            placements[path] = Placement(path, "before", before[path])
        elif path in inside:
            placements[path] = Placement(path, "inside", inside[path])
        else:
            placements[path] = Placement(path, "after", "nothing in the loop needs it")
    return placements


def _before(graph: LoopGraph, *, without: AbstractSet[str] = frozenset()) -> dict[str, str]:
    """:return: layers that can be computed before the loop, with the reason"""
    candidates = {path for path, node in graph.nodes.items() if _blocking(node) is None and path not in without}
    if not graph.length_is_known:  # then there is only what is the same in all frames
        shifted = {edge.path for node in graph.nodes.values() for edge in node.edges if edge.kind == "prev"}
        candidates = {path for path in candidates - shifted if _is_constant(graph.nodes[path])}
    while True:
        blocked = {
            path
            for path in candidates
            for edge in graph.nodes[path].edges
            if edge.kind in ("same", "prev") and edge.path not in candidates
        }
        if not blocked:
            break
        candidates -= blocked
    candidates -= _in_cycles(graph, candidates)
    result = {}
    for path in graph.nodes:
        if path in candidates:
            uses = [str(edge) for edge in graph.nodes[path].edges]
            result[path] = f"uses only {', '.join(uses)}" if uses else "uses nothing of the loop"
    return result


def _is_constant(node: LoopNode) -> bool:
    """:return: whether the layer is the same in all frames, if those are which it uses"""
    return not node.has_state and all(edge.kind in ("same", "base") for edge in node.edges)


def _in_cycles(graph: LoopGraph, candidates: set[str]) -> set[str]:
    """:return: layers that depend on an earlier frame of themselves, and those which need such a layer"""
    remaining = set(candidates)
    done: set[str] = set()
    while True:
        ready = {
            path
            for path in remaining - done
            if all(e.path in done for e in graph.nodes[path].edges if e.kind in ("same", "prev"))
        }
        if not ready:
            return remaining - done
        done |= ready


def _inside(graph: LoopGraph, before: Mapping[str, str]) -> dict[str, str]:
    """:return: layers that have to be in the loop, with the reason"""
    inside: dict[str, str] = {}
    todo = [(path, "the loop needs it to know when to end") for path in graph.conditions]
    for path, node in graph.nodes.items():
        reason = _blocking(node)
        if reason is None:
            edge = _edge_to_itself(graph, path)
            reason = None if edge is None else f"depends on its own past, by {str(edge)!r}"
        if reason is not None:
            todo.append((path, reason))
    for start, reason in todo:
        for path, why in _closure(graph, start, before, reason).items():
            inside.setdefault(path, why)
    return inside


def _closure(graph: LoopGraph, start: str, before: Mapping[str, str], reason: str) -> dict[str, str]:
    """:return: the layer and all that it needs, as far as this is not computed before the loop"""
    result: dict[str, str] = {}
    todo = [(start, reason)]
    while todo:
        path, why = todo.pop(0)
        if path in result or path in before or path not in graph.nodes:
            continue
        result[path] = why
        todo += [(e.path, f"{path!r} needs it") for e in graph.nodes[path].edges if e.kind in ("same", "prev")]
    return result


def _edge_to_itself(graph: LoopGraph, path: str) -> Edge | None:
    """:return: the first step of a way from the layer back to itself, None if there is none"""
    for edge in graph.nodes[path].edges:
        if edge.kind in ("same", "prev") and path in _closure(graph, edge.path, {}, ""):
            return edge
    return None


def _read_in_loop(graph: LoopGraph, before: Collection[str], inside: Collection[str]) -> set[str]:
    """:return: layers before the loop of which only some frames are known, but the loop needs each one"""
    selected: set[str] = set()
    while True:
        more = {
            path
            for path in before
            for node in [graph.nodes[path]]
            if node.selects_frames or (not node.restores_frames and any(e.path in selected for e in node.edges))
        }
        if more <= selected:
            break
        selected |= more
    return {edge.path for path in inside for edge in graph.nodes[path].edges if edge.path in selected}


def _collocate(
    graph: LoopGraph, before: dict[str, str], inside: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Sees to it that layers which want to be together are: if one has to be in the loop, all are."""
    before, inside = dict(before), dict(inside)
    for path, node in graph.nodes.items():
        group = [path, *node.collocate_with]
        if len(group) > 1 and any(other in inside for other in group):
            for other in group:
                if other in graph.nodes and other not in inside:
                    before.pop(other, None)
                    inside.update(_closure(graph, other, before, f"option collocate_with={list(node.collocate_with)}"))
    return before, inside


def _blocking(node: LoopNode) -> str | None:
    """:return: why the layer cannot be computed for all frames at once"""
    if node.must_be_inside:
        return node.must_be_inside
    if not node.works_on_sequences:
        return "has state" if node.has_state else "works on single frames only"
    return None
