"""Less usual ways to choose: with the target among the hypotheses, each hypothesis on its own, or at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError, check_known

if TYPE_CHECKING:
    from returnn.tf.layers.rec.beam import Beam
    from returnn.tf.layers.rec.choice import ChoiceLayer

_SAMPLING_OPTIONS = ("gold_mixin_prob", "gold_mixin_axis")


def expanded_hypotheses(
    layer: ChoiceLayer, scores: Tensor, label_dim: Dim, base_beam: Beam, beam_dim: Dim
) -> tuple[Tensor, Tensor, Tensor]:
    """
    Each hypothesis goes on with its own best labels, as many for each.

    :param scores: [B, beam, labels]
    :return: scores, source beams, labels: [B, new beam]
    """
    num_old, num_new = base_beam.dim.dimension, beam_dim.dimension
    assert num_old is not None
    assert num_new is not None
    if num_new % num_old:
        raise ConfigError(
            f"{layer.where()}: keep_beams: beam_size {num_new} is no multiple of {num_old}, the one before."
        )
    each = layer.new_dim("labels of each", num_new // num_old)
    best, labels, _ = rf.top_k(scores, axis=label_dim, k=num_new // num_old, k_dim=each)
    source = rf.expand_dim(rf.range_over_dim(base_beam.dim), each)
    source = rf.expand_dims(source, [dim for dim in best.dims if dim not in source.dims])
    source.sparse_dim = base_beam.dim
    merged = [rf.merge_dims(x, dims=[base_beam.dim, each], out_dim=None) for x in (best, source, labels)]
    result = [rf.replace_dim(x, in_dim=dim, out_dim=beam_dim)[0] for x, dim in merged]
    return result[0], result[1], result[2]


def with_target(
    layer: ChoiceLayer, scores: Tensor, label_dim: Dim, base_beam: Beam, beam_dim: Dim
) -> tuple[Tensor, Tensor, Tensor]:
    """
    The last hypothesis follows the target; the others are the best of all. With `cheating="exclusive"`, they leave out
    the continuation which the last one takes.

    :param scores: [B, beam, labels]
    :return: scores, source beams, labels: [B, new beam]
    """
    target = layer.get_target_value()
    if target is None:
        raise ConfigError(f"{layer.where()}: option 'cheating': a target is required.")
    gold = target.copy()
    gold.sparse_dim = label_dim
    last_beam = base_beam.dim.dimension - 1
    step = layer.network.get_rec_step_info().output
    source = rf.where(rf.compare(step, "==", 0), 0, last_beam)  # before the first step, there is only the first one
    source.sparse_dim = base_beam.dim
    gold_score = rf.gather(rf.gather(scores, indices=gold, axis=label_dim), indices=source, axis=base_beam.dim)
    if layer.cheating == "exclusive":
        is_gold = rf.combine_bc(
            rf.compare_bc(rf.range_over_dim(label_dim), "==", gold),
            "logical_and",
            rf.compare_bc(rf.range_over_dim(base_beam.dim), "==", source),
        )
        scores = rf.where(is_gold, float("-inf"), scores)
    rest = layer.new_dim("free hypotheses", beam_dim.dimension - 1)
    best, (src_beams, labels), _ = rf.top_k(scores, axis=[base_beam.dim, label_dim], k=rest.dimension, k_dim=rest)
    one = layer.new_dim("target hypothesis", 1)
    result = []
    for free, last in ((best, gold_score), (src_beams, source), (labels, gold)):
        last = rf.expand_dims(last, [dim for dim in (*free.dims, one) if dim not in last.dims and dim != rest])
        joined, dim = rf.concat((free, rest), (rf.cast(last, free.dtype), one))
        joined, _ = rf.replace_dim(joined, in_dim=dim, out_dim=beam_dim)
        joined.sparse_dim = free.sparse_dim
        result.append(joined)
    return result[0], result[1], result[2]


def combine_by_user(layer: ChoiceLayer, scores: Tensor, base: Tensor, ended: Tensor | None, label_dim: Dim) -> Tensor:
    """
    :param scores: [B, beam, labels] of this step
    :param base: [B, beam], so far
    :param ended: [B, beam], bool
    :return: [B, beam, labels]: what the function `custom_score_combine` makes of them, from raw tensors
    """
    template = rf.combine_bc(scores, "+", base)
    if get_selected_backend() == "template":
        return template
    assert layer.custom_score_combine is not None
    beam = next(dim for dim in base.dims if dim.is_beam_dim())
    batch = base.get_batch_dim_tag()
    full = scores
    for dim in (batch, beam):
        if dim not in full.dims:
            full = rf.expand_dim(full, dim)
    ended = rf.zeros([batch, beam], dtype="bool") if ended is None else ended
    for dim in (batch, beam):
        if dim not in ended.dims:
            ended = rf.expand_dim(ended, dim)
    raw = layer.custom_score_combine(
        layer=layer,
        scores_in=full.copy_compatible_to_dims_raw([batch, beam, label_dim]),
        scores_base=base.copy_compatible_to_dims_raw([batch, beam])[:, :, None],
        t=layer.network.get_rec_step_index(),
        end_flags=ended.copy_compatible_to_dims_raw([batch, beam]),
        batch_dim=batch.get_dim_value(),
        scores_beam_in=beam.dimension,
        base_beam_in=beam.dimension,
        prob_scale=layer.prob_scale,
        base_beam_score_scale=layer.base_beam_score_scale,
    )
    out = Tensor("scores", dims=[batch, beam, label_dim], dtype="float32", raw_tensor=raw)
    return out.copy_compatible_to_dims(template.dims)


def gumbel_noise(x: Tensor) -> Tensor:
    """:return: noise with which the maximum is a sample (Gumbel 1954): the dims of x"""
    uniform = rf.random_uniform(x.dims, dtype=x.dtype, minval=1e-20, maxval=1.0)
    return -rf.log(-rf.log(uniform))


def sampled_labels(
    layer: ChoiceLayer, target: Tensor, log_probs: Tensor, label_dim: Dim | None, options: dict[str, Any]
) -> Tensor:
    """
    :param target: [...], labels
    :param log_probs: [..., labels]
    :param options: "gold_mixin_prob": how often it is the target
    :return: [...]: labels drawn from the distribution, or those of the target
    """
    for option in options:
        check_known("option", option, _SAMPLING_OPTIONS, where=f"{layer.where()}: scheduled_sampling")
    assert label_dim is not None
    drawn = rf.cast(rf.reduce_argmax(log_probs + gumbel_noise(log_probs), axis=label_dim), target.dtype)
    drawn.sparse_dim = target.sparse_dim
    keep = options.get("gold_mixin_prob", 0.0)
    if not keep:
        return drawn
    axes = options.get("gold_mixin_axis")
    dims = list(target.dims) if axes is None else [target.dims[i] for i in target.get_axes_from_description(axes)]
    is_gold = rf.random_uniform(dims) < keep
    return rf.where(is_gold, target, drawn, allow_broadcast_all_sources=True)
