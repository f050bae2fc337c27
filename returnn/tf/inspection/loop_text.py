"""A loop in words, stage by stage: what was parsed, inferred, planned, and what will be emitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from returnn.tf.inspection.dims_text import dim_text, dims_text
from returnn.tf.inspection.found_layers import FoundLayer
from returnn.util.texts.counted import counted

if TYPE_CHECKING:
    from returnn.tensor import Tensor
    from returnn.tf.layers.loop.compile import CompiledLoop
    from returnn.tf.layers.loop.frame import Edge

_PLACES = {
    "before": "before the loop, all frames at once",
    "inside": "inside, frame by frame",
    "after": "after the loop, all frames at once",
}


def loop_text(loop: CompiledLoop) -> str:
    """:return: the stages of the compiler, in lines"""
    name = loop.plan.name
    return "\n".join(
        [
            f"loop {name!r} over {dim_text(loop.inputs.time_dim)}: {_length(loop)}",
            "  parse: who uses what",
            *_aligned((path, ", ".join(map(str, loop.inferred.edges.get(path, ()))) or "-") for path in _paths(loop)),
            "  infer: output of one frame",
            *_aligned((path, _class_of(loop, path), dims_text(_output(loop, path))) for path in _paths(loop)),
            "  plan: where each layer runs, and why",
            *_plan(loop),
            "  emit: what goes in and out of the frames",
            *_aligned(_traffic(loop)),
        ]
    )


def _paths(loop: CompiledLoop) -> list[str]:
    return list(loop.plan.placements)


def _output(loop: CompiledLoop, path: str) -> Tensor:
    return loop.inferred.layers[path].output


def _class_of(loop: CompiledLoop, path: str) -> str:
    return FoundLayer(loop.inferred.layers[path]).class_name


def _length(loop: CompiledLoop) -> str:
    return _number_of_frames(loop) + (_unroll(loop) if loop.inputs.unroll else "")


def _unroll(loop: CompiledLoop) -> str:
    number = loop.inputs.time_dim.dimension if loop.inputs.has_known_length else None
    number = number or getattr(loop.inputs.layer, "max_seq_len", None)
    if isinstance(number, int):
        return f"; unrolled: {counted(number, 'frame')}, one after the other"
    return "; option 'unroll' has no effect, as 'max_seq_len' is no number"


def _number_of_frames(loop: CompiledLoop) -> str:
    if loop.inputs.has_known_length:
        return "the number of frames is known before" + (", 'end' may end it earlier" if loop.step.has_end else "")
    longest = getattr(loop.inputs.layer, "max_seq_len", None)
    limit = f", after at most {counted(longest, 'frame')}" if longest is not None else ""
    return f"the layer 'end' ends it{limit}"


def _plan(loop: CompiledLoop) -> list[str]:
    lines = []
    for place, words in _PLACES.items():
        found = [p for p in loop.plan.placements.values() if p.place == place]
        if found:
            lines += [f"    {words}:", *(f"  {line}" for line in _aligned((p.layer, p.reason) for p in found))]
    return lines


def _traffic(loop: CompiledLoop) -> list[tuple[str, str, str]]:
    inferred, plan = loop.inferred, loop.plan
    inside = plan.at("inside")
    if not inside:
        return [("there is no loop in the graph", "", "")]
    rows = [("reads", "data:source", dims_text(loop.inputs.source))] if loop.inputs.source is not None else []
    rows += [("reads", str(edge), dims_text(_output(loop, edge.path))) for edge in _read_edges(loop, inside)]
    rows += [("keeps for the next frame", f"prev:{p}", dims_text(t)) for p, t in inferred.prev.items() if p in inside]
    for path in inside:
        for key, state in inferred.states.get(path, {}).items():
            rows.append(("keeps for the next frame", f"{path}, state {key!r}", dims_text(state.template)))
    used_later = {edge.path for path in plan.at("after") for edge in inferred.edges.get(path, ())}
    wanted = [path for path in inside if path in used_later or (path in loop.graph.wanted and path != "end")]
    rows += [("writes, for all frames", path, dims_text(_output(loop, path))) for path in wanted]
    if inferred.beam is not None:
        rows.append(
            ("carries", f"beam of {counted(inferred.beam.dim.size, 'hypothesis')}", "scores, and where each came from")
        )
    return rows


def _read_edges(loop: CompiledLoop, inside: Sequence[str]) -> list[Edge]:
    """:return: what frames use of layers before the loop"""
    edges = {edge for path in inside for edge in loop.inferred.edges.get(path, ())}
    before = set(loop.plan.at("before"))
    return sorted((edge for edge in edges if edge.kind in ("same", "prev") and edge.path in before), key=str)


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["    " + "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip() for row in rows]
