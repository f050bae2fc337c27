"""
The hypotheses before the first frame of a loop that searches.

Alone, there is one. If layers of the time step depend on hypotheses of a search around the loop, which are not decided,
the loop goes on from these, with their scores: from the best ones, as many as it has hypotheses itself. So a hypothesis
of the loop knows which one of that search it continues, and what "base:" names can be seen for it.
"""

from __future__ import annotations

import dataclasses

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.search.beam import Beam, score_dtype
from returnn.util.errors import ConfigError


def beam_before_loop(compiled: CompiledLoop) -> Beam | None:
    """:return: the hypotheses before the first frame, which the network knows now; None without search in the loop"""
    prev_beam, around = compiled.inferred.prev_beam, compiled.inferred.beam_around
    if prev_beam is None:
        return None
    beam = _only_one(compiled, prev_beam) if around is None else _best_around(compiled, around, prev_beam)
    compiled.inputs.layer.network.beams.register(beam)
    return beam


def _only_one(compiled: CompiledLoop, prev_beam: Dim) -> Beam:
    # There is one hypothesis, in the first place; the others cannot be continued.
    is_first = rf.compare(rf.range_over_dim(prev_beam), "==", 0)
    scores = rf.cast(rf.where(is_first, 0.0, float("-inf")), score_dtype())
    batch = compiled.inputs.layer.network.step.batch_dims()
    return Beam(prev_beam, None, scores=rf.expand_to(scores, [*batch, prev_beam]))


def _best_around(compiled: CompiledLoop, around: Dim, prev_beam: Dim) -> Beam:
    layer = compiled.inputs.layer
    found = layer.network.beams.get(around)
    if found is None or found.scores is None:
        raise ConfigError(
            f"{layer.where()}: its search would go on from the hypotheses {around}, whose scores are not known.\n"
            "  Of a search before this one, take the best by the class 'decide'."
        )
    assert prev_beam.size is not None
    num = min(prev_beam.size, around.size or 0)
    kept = layer.new_dim("hypotheses of the search around", num, auto_generated=False)
    scores, src_beams, _ = rf.top_k(rf.cast(found.scores, score_dtype()), axis=around, k=num, k_dim=kept)
    assert isinstance(src_beams, Tensor)
    missing = [(0, prev_beam.size - num)]
    scores, _ = rf.pad(scores, axes=[kept], padding=missing, out_dims=[prev_beam], value=float("-inf"))
    src_beams, _ = rf.pad(src_beams, axes=[kept], padding=missing, out_dims=[prev_beam], value=0)
    return Beam(prev_beam, None, around, src_beams.copy_with_roles(sparse_dim=around), scores)


def beam_before_frame(first: Beam, continued: Tensor | None, scores: Tensor) -> Beam:
    """
    :param first: the hypotheses before the first frame
    :param continued: [B, beam], int32: which of these they continue; None if that makes no difference
    :param scores: [B, beam]
    :return: the hypotheses before a frame
    """
    if continued is None or first.src_beams is None:
        return Beam(first.dim, None, scores=scores)
    src_beams = rf.gather(first.src_beams, indices=continued.copy_with_roles(sparse_dim=first.dim), axis=first.dim)
    return dataclasses.replace(first, src_beams=src_beams.copy_with_roles(sparse_dim=first.source), scores=scores)
