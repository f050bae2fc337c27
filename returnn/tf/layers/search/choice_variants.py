"""
Which continuations are chosen: the best of all; those of each hypothesis on its own; with the target among them; or, in
training, at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.search.beam import Beam
from returnn.tf.layers.search.choice_candidates import Candidates
from returnn.tf.layers.search.choice_scores import gumbel_noise
from returnn.tf.layers.search.choosing_layer import ChoosingLayer
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import counted

_SAMPLING_OPTIONS = ("gold_mixin_prob", "gold_mixin_axis")

Selection = tuple[Tensor, Tensor, Tensor]  # scores, source beams, and the candidates: [B, new beam]


def select(layer: ChoosingLayer, scores: Tensor, candidates: Candidates, base: Beam, beam_dim: Dim) -> Selection:
    """
    :param layer: the choice
    :param scores: [B, beam, candidates]
    :param candidates: what they are
    :param base: the beam before
    :param beam_dim: the new beam
    """
    if layer.keep_beams and base.choice is None:
        return _of_each_from_one_on(layer, scores, candidates.dim, base, beam_dim)
    if layer.keep_beams:
        return _of_each(layer, scores, candidates.dim, base, beam_dim)
    if layer.cheating:
        return _with_target(layer, scores, candidates, base, beam_dim)
    return _best_of_all(layer, scores, candidates.dim, base, beam_dim)


def forced(layer: ChoosingLayer, scores: Tensor, candidates: Candidates, base: Beam, beam_dim: Dim) -> Selection:
    """See `select`. Each hypothesis goes on with the target."""
    best = rf.gather(scores, indices=candidates.target(), axis=candidates.dim)
    best, _ = rf.replace_dim(best, in_dim=base.dim, out_dim=beam_dim)
    src_beams = rf.expand_to(rf.range_over_dim(beam_dim).copy_with_roles(sparse_dim=base.dim), best.dims)
    return best, src_beams, candidates.target()


def kept_if_over(selection: Selection, over: Tensor | None, scores: Tensor, base: Beam, beam_dim: Dim) -> Selection:
    """
    :param selection: what was chosen
    :param over: [B], bool: nothing changes in these sequences. None: in none
    :param scores: [B, beam], of the hypotheses before
    :param base: the beam before
    :param beam_dim: the new beam
    :return: the selection; where it is over, the hypotheses before, in their order; the best, if not all can stay
    """
    if over is None:
        return selection
    size, last = beam_dim.dimension or 0, (base.dim.dimension or 0) - 1
    if size <= last:
        kept_scores, source, _ = rf.top_k(scores, axis=base.dim, k=size, k_dim=beam_dim)
    else:
        number = rf.range_over_dim(beam_dim).copy_with_roles(sparse_dim=None)
        source = rf.minimum(number, last).copy_with_roles(sparse_dim=base.dim)
        kept_scores = rf.gather(scores, indices=source, axis=base.dim)
        kept_scores = rf.where(number <= last, kept_scores, float("-inf"), allow_broadcast_all_sources=True)
    result = [
        rf.where(over, kept, found, allow_broadcast_all_sources=True).copy_with_roles(sparse_dim=found.sparse_dim)
        for found, kept in zip(selection, (kept_scores, source, 0), strict=True)
    ]
    return result[0], result[1], result[2]


def _best_of_all(layer: ChoosingLayer, scores: Tensor, dim: Dim, base: Beam, beam_dim: Dim) -> Selection:
    size, possible = beam_dim.dimension, (base.dim.dimension or 0) * (dim.dimension or 0)
    assert size is not None
    if size <= possible:
        best, (src_beams, index), _ = rf.top_k(scores, axis=[base.dim, dim], k=size, k_dim=beam_dim)
        return best, src_beams, index
    found = layer.new_dim(f"all there is for {beam_dim.name}", possible, auto_generated=False)
    best, (src_beams, index), _ = rf.top_k(scores, axis=[base.dim, dim], k=possible, k_dim=found)
    missing = [(0, size - possible)]
    result = [
        rf.pad(x, axes=[found], padding=missing, out_dims=[beam_dim], value=value)[0]
        for x, value in ((best, float("-inf")), (src_beams, 0), (index, 0))
    ]
    return result[0], result[1], result[2]


def _of_each(layer: ChoosingLayer, scores: Tensor, dim: Dim, base: Beam, beam_dim: Dim) -> Selection:
    """Each hypothesis goes on with its own best labels, as many for each."""
    num_old, num_new = base.dim.dimension, beam_dim.dimension
    assert num_old is not None
    assert num_new is not None
    if num_new % num_old or num_new // num_old > (dim.dimension or 0):
        raise ConfigError(
            f"{layer.where()}: keep_beams: beam_size {num_new} is no multiple of {num_old}, the one before, "
            f"by at most the {counted(dim.dimension, 'label')}."
        )
    each = layer.new_dim("labels of each", num_new // num_old, auto_generated=False)
    best, index, _ = rf.top_k(scores, axis=dim, k=num_new // num_old, k_dim=each)
    assert isinstance(index, Tensor)
    source = rf.expand_dim(rf.range_over_dim(base.dim), each)
    source = rf.expand_to(source, best.dims).copy_with_roles(sparse_dim=base.dim)
    merged = [rf.merge_dims(x, dims=[base.dim, each], out_dim=None) for x in (best, source, index)]
    result = [rf.replace_dim(x, in_dim=d, out_dim=beam_dim)[0] for x, d in merged]
    return result[0], result[1], result[2]


def _of_each_from_one_on(layer: ChoosingLayer, scores: Tensor, dim: Dim, base: Beam, beam_dim: Dim) -> Selection:
    """Before the first step there is only one hypothesis, from which all of them come."""
    is_first = rf.compare(layer.network.get_rec_step_info().index, "==", 0)
    pairs = zip(
        _best_of_all(layer, scores, dim, base, beam_dim), _of_each(layer, scores, dim, base, beam_dim), strict=True
    )
    best, source, index = (rf.where(is_first, first, later, allow_broadcast_all_sources=True) for first, later in pairs)
    return best, source.copy_with_roles(sparse_dim=base.dim), index.copy_with_roles(sparse_dim=dim)


def _with_target(layer: ChoosingLayer, scores: Tensor, candidates: Candidates, base: Beam, beam_dim: Dim) -> Selection:
    """
    The last hypothesis follows the target; the others are the best of all. With `cheating="exclusive"`, they leave out
    the continuation which the last one takes. Which hypothesis that one continues, see `_hypothesis_of_target`.
    """
    gold = candidates.target()
    source = _hypothesis_of_target(layer, base)
    if base.dim in gold.dims:  # what another search has found
        gold = rf.gather(gold, indices=source, axis=base.dim).copy_with_roles(sparse_dim=gold.sparse_dim)
    gold_score = rf.gather(rf.gather(scores, indices=gold, axis=candidates.dim), indices=source, axis=base.dim)
    scores = candidates.without_appended_target(scores)
    if layer.cheating == "exclusive":
        is_source = rf.compare_bc(rf.range_over_dim(base.dim), "==", source)
        is_gold = rf.combine_bc(candidates.is_target(), "logical_and", is_source)
        scores = rf.where(is_gold, float("-inf"), scores)
    one = layer.new_dim("target hypothesis", 1, auto_generated=False)
    if beam_dim.dimension == 1:
        parts = [(last, one) for last in (gold_score, source, gold)]
        return _as_selection([_with_dims(x, gold_score.dims, dim) for x, dim in parts], one, beam_dim)
    rest = layer.new_dim("free hypotheses", (beam_dim.dimension or 0) - 1, auto_generated=False)
    free = _best_of_all(layer, scores, candidates.dim, base, rest)
    dims = [dim for dim in free[0].dims if dim != rest]
    joined = []
    for x, last in zip(free, (gold_score, source, gold), strict=True):
        both, dim = rf.concat((x, rest), (_with_dims(rf.cast(last, x.dtype), dims, one), one))
        both = both.copy_with_roles(sparse_dim=x.sparse_dim)
        joined.append(both)
    return _as_selection(joined, dim, beam_dim)


def _hypothesis_of_target(layer: ChoosingLayer, base: Beam) -> Tensor:
    """
    :return: {[B]} -> beam: the hypothesis that followed the target. After the frame before, that was the last one; but
        before the first frame, there is only the first one. Of other choices in this frame, it is the first hypothesis
        that continues it, if none of them has `cheating`; if they dropped it, the best one.
    """
    is_first = rf.compare(layer.network.get_rec_step_info().index, "==", 0)
    beams = [*reversed(layer.network.beams.chain(base))]
    source: Tensor = rf.convert_to_tensor(0, dims=(), dtype="int32")
    for beam in beams:
        last = (beam.dim.dimension or 0) - 1
        if beam.choice is None:
            source = rf.where(is_first, 0, last)
        elif getattr(beam.choice, "cheating", False) or beam.src_beams is None:
            source = rf.convert_to_tensor(last, dims=(), dtype="int32")
        else:
            continues = rf.cast(rf.compare_bc(beam.src_beams, "==", source), "int32")
            source = rf.cast(rf.reduce_argmax(continues, axis=beam.dim), "int32")
    return source.copy_with_roles(sparse_dim=base.dim)


def _with_dims(x: Tensor, dims: Sequence[Dim], more: Dim) -> Tensor:
    return rf.expand_to(x, [*dims, more])


def _as_selection(parts: Sequence[Tensor], dim: Dim, beam_dim: Dim) -> Selection:
    result = [rf.replace_dim(x, in_dim=dim, out_dim=beam_dim)[0] for x in parts]
    return result[0], result[1], result[2]


def check_sampling(options: Any, *, where: str) -> dict[str, Any]:
    """
    :param options: as given by the option `scheduled_sampling`, which is not false
    :return: options of `sampled_labels`
    :raises ConfigError: if there is none of this name
    """
    where = f"{where}: option 'scheduled_sampling'"
    if options is True:
        return {}
    if not isinstance(options, dict):
        raise ConfigError(f"{where}: expected a bool, or a dict with {_SAMPLING_OPTIONS}, got {options!r}.")
    for option in options:
        check_known("option", option, _SAMPLING_OPTIONS, where=where)
    share = options.get("gold_mixin_prob", 0.0)
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ConfigError(f"{where}: 'gold_mixin_prob': expected 0 to 1, got {share!r}.")
    return options


def sampled_labels(target: Tensor, log_probs: Tensor, options: dict[str, Any]) -> Tensor:
    """
    Scheduled sampling (Bengio et al. 2015).

    :param target: [...], labels
    :param log_probs: [..., labels]
    :param options: "gold_mixin_prob": how often it is the target; "gold_mixin_axis": decided once for each entry of
        these axes, and not for each label
    :return: [...]: labels drawn from the distribution, or those of the target
    """
    label_dim = log_probs.feature_dim
    assert label_dim is not None
    drawn = rf.cast(rf.reduce_argmax(log_probs + gumbel_noise(log_probs), axis=label_dim), target.dtype)
    drawn = drawn.copy_with_roles(sparse_dim=target.sparse_dim)
    keep = options.get("gold_mixin_prob", 0.0)
    if not keep:
        return drawn
    axes = options.get("gold_mixin_axis")
    dims = list(target.dims) if axes is None else [target.dims[i] for i in target.get_axes_from_description(axes)]
    is_gold = rf.random_uniform(dims) < keep
    return rf.where(is_gold, target, drawn, allow_broadcast_all_sources=True)
