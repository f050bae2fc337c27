"""
Dims that layers of a time step make, with other lengths in each frame, such as those of a slice or of a loop inside.

What is kept of all frames has one length for each dim. So whoever sees such a dim has to be in the loop, if the layer
is that makes it. Where that one is moved out, it makes the dim for all frames at once, with lengths over the frames.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from returnn.tensor import Dim
from returnn.tf.layers.core.step_state import GrowingInitial, StateTemplate
from returnn.tf.layers.loop.graph import LoopGraph
from returnn.tf.layers.loop.selected_frames import Placed

if TYPE_CHECKING:
    from returnn.tf.layers.core.layer_base import LayerBase


def growing_dims(states: Mapping[str, Mapping[str, StateTemplate]]) -> tuple[Dim, ...]:
    """
    :param states: what layers keep, by path and name
    :return: the dims that have one more entry in each step
    """
    initial = [state.initial for parts in states.values() for state in parts.values()]
    return tuple(dict.fromkeys(x.grown for x in initial if isinstance(x, GrowingInitial) and x.grown is not None))


def find_makers_of_dims(
    layers: Mapping[str, LayerBase], prefix: str, others: Collection[Dim]
) -> dict[str, tuple[str, ...]]:
    """
    :param layers: of the time step, as templates, by path
    :param prefix: what their absolute names begin with
    :param others: dims that all frames have together: the one of the loop, and those which grow with it
    :return: for each layer, the paths of the layers which make dims that it sees
    """
    known = set(others)
    makers: dict[Dim, list[str]] = {}
    seen: dict[str, list[Dim]] = {}
    for path, layer in layers.items():
        used = [x for x in layer.get_dep_layers() if x.output is not None and not x.name.startswith("prev:")]
        known.update(_atoms(dim for x in used if not x.get_absolute_name().startswith(prefix) for dim in x.output.dims))
        given = _atoms(dim for x in used for dim in x.output.dims)
        own = _atoms(layer.output.dims)
        seen[path] = list(dict.fromkeys(given + own))
        for dim in own:
            if dim not in given:
                makers.setdefault(dim, []).append(path)
    makers = {dim: paths for dim, paths in makers.items() if dim not in known}
    return {
        path: tuple(dict.fromkeys(maker for dim in dims for maker in makers.get(dim, ()) if maker != path))
        for path, dims in seen.items()
    }


def _atoms(dims: Iterable[Dim]) -> list[Dim]:
    """:return: the dims with lengths of their own which these are, or are computed from"""
    found: dict[Dim, None] = {}
    todo = list(dims)
    while todo:
        dim = todo.pop()
        if dim.size is not None or dim.is_batch_dim() or dim.is_beam_dim():
            continue
        rule = dim.length_rule
        given: Iterable[Any] = dim.expression.atoms() if rule is None else [rule.source]
        sources = [source for source in given if isinstance(source, Dim) and source != dim]
        if sources:
            todo += sources
        else:
            found[dim] = None
    return list(found)


def seeing_dims_of_frames(graph: LoopGraph, placements: Mapping[str, Placed]) -> dict[str, str]:
    """
    :param graph: the time step
    :param placements: of its layers
    :return: layers outside of the loop which see a dim that one inside makes, with the reason to keep them inside
    """
    inside = {path for path, placement in placements.items() if placement.place == "inside"}
    found = {}
    for path, node in graph.nodes.items():
        maker = next((maker for maker in node.makers_of_dims if maker in inside), None)
        if maker is not None and path not in inside:
            found[path] = f"sees a dim whose lengths {maker!r} makes in each frame"
    return found
