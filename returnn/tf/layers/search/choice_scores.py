"""Scores of a choice: of the labels of this step, of the hypotheses so far, and both together. All in log space."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.search.choosing_layer import ChoosingLayer
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.tf.layers.user_code.merged_layers import layers_seen_merged
from returnn.util.errors import ConfigError

_SCORE_OF_OTHERS = -1e30  # of the labels that a hypothesis which has ended cannot continue with


def log_scores(layer: ChoosingLayer, index: int, source: Tensor) -> Tensor:
    """
    :param layer: the choice
    :param index: which source of it
    :param source: {..., labels}, as the option `input_type` says
    :return: the same dims, log space
    """
    label_dim = source.feature_dim
    if label_dim is None or label_dim.size is None:
        raise ConfigError(f"{layer.where()}: the source {source} has no feature dim with the scores of the labels.")
    if layer.input_type == "logits":
        return rf.log_softmax(source, axis=label_dim, use_mask=False)
    if layer.input_type == "log_prob":
        return source
    act = layer.sources[index].output_before_activation
    if act is not None and act.before is not None and act.is_softmax_act_func() and act.after is not None:
        scores = rf.log_softmax(act.before, axis=label_dim, use_mask=False)  # more exact than the log of the softmax
        return layer.network.beams.translate(scores, layer.network.beams.of(source))
    return rf.safe_log(source)


def fixed_if_ended(layer: ChoosingLayer, scores: Tensor, ended: Tensor) -> Tensor:
    """
    :param layer: the choice
    :param scores: {..., labels}
    :param ended: [B, beam], bool
    :return: scores, where a hypothesis that has ended goes on with label 0 alone, at no cost
    """
    assert scores.feature_dim is not None
    is_first = rf.compare(rf.range_over_dim(scores.feature_dim), "==", 0)
    # Where there are fewer hypotheses than the beam is large, -inf adds none in frames that other sequences have.
    score_of_others = _SCORE_OF_OTHERS if layer.network.get_config().options.search_depends_on_batch else -math.inf
    fixed = rf.cast(rf.where(is_first, 0.0, score_of_others), scores.dtype)
    out = rf.where(ended, fixed, scores, allow_broadcast_all_sources=True)
    return out.copy_with_roles(feature_dim=scores.feature_dim)


def grown_if_ended(layer: ChoosingLayer, base: Tensor, ended: Tensor) -> Tensor:
    """
    :param layer: the choice
    :param base: [B, beam], of the hypotheses so far
    :param ended: [B, beam], bool
    :return: base; with length normalization, those that have ended grow by what the others do on average
    """
    if not layer.length_normalization:
        return base
    step = rf.cast(layer.network.get_rec_step_info().index, base.dtype)
    growth = (step + 1.0) / rf.maximum(step, 1.0)
    growth = growth if layer.length_normalization_exponent == 1 else growth**layer.length_normalization_exponent
    return base * rf.where(ended, growth, 1.0, allow_broadcast_all_sources=True)


def is_over(layer: ChoosingLayer, ended: Tensor | None) -> Tensor | None:
    """
    :param layer: the choice
    :param ended: [B, beam], bool
    :return: [B], bool: all hypotheses of the sequence have ended, so that nothing about them may change, whatever the
        options: how long the loop goes on depends on the other sequences. None if that does not matter
    """
    if ended is None or layer.network.get_config().options.search_depends_on_batch:
        return None
    beam = [dim for dim in ended.dims if dim.is_beam_dim()]
    return rf.reduce_all(ended, axis=beam) if beam else ended


def combined(layer: ChoosingLayer, scores: Tensor, base: Tensor, ended: Tensor | None, dim: Dim) -> Tensor:
    """
    :param layer: the choice
    :param scores: {..., dim} of this step
    :param base: [B, beam], so far
    :param ended: [B, beam], bool
    :param dim: what there is to choose from
    :return: [B, beam, dim]: scores of all continuations
    """
    if layer.custom_score_combine is not None:
        total = _combined_by_user(layer, scores, base, ended, dim)
    else:
        scores = scores if layer.prob_scale == 1 else scores * layer.prob_scale
        base = _scaled(base, layer.base_beam_score_scale)
        total = rf.combine_bc(scores, "+", base)
    if layer.random_sample_scale > 0:
        total = total + gumbel_noise(total) * layer.random_sample_scale
    return total


def _scaled(base: Tensor, scale: float) -> Tensor:
    """:return: base times scale; a hypothesis that does not exist, with the score -inf, does not begin to, by 0"""
    if scale == 1:
        return base
    return base * scale if scale else rf.where(rf.compare(base, "==", float("-inf")), base, 0.0)


_GIVEN_TO_USER = (
    "layer", "scores_in", "scores_base", "t", "end_flags", "batch_dim", "scores_beam_in", "base_beam_in", "prob_scale",
    "base_beam_score_scale",
)  # fmt: skip


def check_function_of_user(function: Callable[..., Any], *, where: str) -> None:
    """:raises ConfigError: if it cannot be called as `custom_score_combine`"""
    try:
        inspect.signature(function).bind(**dict.fromkeys(_GIVEN_TO_USER))
    except TypeError as exc:
        raise ConfigError(
            f"{where}: option 'custom_score_combine': {getattr(function, '__name__', function)!r}: {exc}.\n"
            f"  Its arguments, of which **kwargs can be some: {', '.join(_GIVEN_TO_USER)}."
        ) from exc
    except ValueError:  # it has no signature
        return


def _combined_by_user(layer: ChoosingLayer, scores: Tensor, base: Tensor, ended: Tensor | None, dim: Dim) -> Tensor:
    """:return: [B, beam, dim]: what the function `custom_score_combine` makes of raw tensors"""
    template = rf.combine_bc(scores, "+", base)
    if get_selected_backend() == "template":
        return template
    assert layer.custom_score_combine is not None
    beam = next(dim for dim in base.dims if dim.is_beam_dim())
    batch = base.get_batch_dim_tag()
    if ended is None:
        ended = rf.zeros([batch, beam], dtype="bool")
    full, ended = (rf.expand_to(x, (batch, beam)) for x in (scores, ended))
    axis, beams = BeamAxis(batch, beam), layer.network.beams
    seen = layers_seen_merged(
        layer,
        ["sources", "explicit_search_sources"],
        lambda output: axis.merge(beams.translate(output, beams.of(base))),
    )
    with seen:
        raw = layer.custom_score_combine(
            layer=layer,
            scores_in=full.copy_compatible_to_dims_raw([batch, beam, dim]),
            scores_base=base.copy_compatible_to_dims_raw([batch, beam])[:, :, None],
            t=layer.network.get_rec_step_index(),
            end_flags=ended.copy_compatible_to_dims_raw([batch, beam]),
            batch_dim=batch.get_dim_value(),
            scores_beam_in=beam.dimension,
            base_beam_in=beam.dimension,
            prob_scale=layer.prob_scale,
            base_beam_score_scale=layer.base_beam_score_scale,
        )
    if raw.dtype.name != base.dtype or raw.shape.rank not in (None, 3):
        raise ConfigError(
            f"{layer.where()}: option 'custom_score_combine': the function gave {raw}.\n"
            f"  Expected {base.dtype} with the shape (batch, beam {beam.dimension}, labels {dim.dimension})."
        )
    out = Tensor("scores", dims=[batch, beam, dim], dtype=base.dtype, raw_tensor=raw)
    return out.copy_compatible_to_dims(template.dims)


def gumbel_noise(x: Tensor) -> Tensor:
    """:return: noise with which the maximum is a sample (Gumbel 1954): the dims of x"""
    uniform = rf.random_uniform(x.dims, dtype=x.dtype, minval=1e-20, maxval=1.0)
    return -rf.log(-rf.log(uniform))
