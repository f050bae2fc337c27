"""
Layers of which only some frames are there, if they are computed for all frames at once.

A layer with a mask has the frames where the mask is true, and so have those that use it, until one leads back to all
frames. Whoever needs these next to other frames of the loop, or in the frame before, has to be in the loop, where the
layer with the mask repeats its last frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from returnn.tf.layers.loop.graph import LoopGraph

_ALL = ""  # stands for all frames of the loop, among names of masks


class Placed(Protocol):
    """Of a layer that has its place."""

    @property
    def place(self) -> str:
        """Where it is."""
        ...


def mixing_frames(graph: LoopGraph, placements: Mapping[str, Placed]) -> dict[str, str]:
    """
    :param graph: the time step
    :param placements: of its layers
    :return: layers outside of the loop which would see different frames of it, with the reason to keep them inside
    """
    found: dict[str, str] = {}
    known: dict[str, frozenset[str]] = {}

    def frames_of(path: str) -> frozenset[str]:
        """:return: names of masks, or `_ALL`; nothing if it is the same in all frames"""
        if path not in known:
            known[path] = _frames_of(path)
        return known[path]

    def _frames_of(path: str) -> frozenset[str]:
        node = graph.nodes.get(path)
        if node is None or placements[path].place == "inside":
            return frozenset([_ALL])
        used = {_ALL} if node.sees_frames else set()
        shifted: set[str] = set()
        for edge in node.edges:
            if edge.kind == "prev":
                shifted |= frames_of(edge.path)
            elif edge.kind == "same":
                used |= frames_of(edge.path)
            elif edge.kind == "data":
                used.add(_ALL)
        masks = sorted((used | shifted) - {_ALL})
        if node.restores_frames:
            return frozenset([_ALL])
        if masks and (shifted - {_ALL} or len(used | shifted) > 1):
            found[path] = f"mixes other frames with those of the mask {masks[0]!r}"
        if node.has_state and not used | shifted:
            return frozenset([_ALL])
        return frozenset([node.mask] if node.mask else used | shifted)

    for path in graph.nodes:
        frames_of(path)
    return found
