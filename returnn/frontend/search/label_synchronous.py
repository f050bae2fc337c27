"""Search label by label: all hypotheses of a step have the same number of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.frontend.search.result import NEVER, SearchResult, first_frames, follow_back, reorder
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError


def beam_search(
    step: Callable[[Tensor, Any], tuple[Tensor, Any]],
    *,
    initial_state: Callable[..., Any],
    batch_dims: Sequence[Dim],
    beam_size: int,
    vocab_dim: Dim,
    bos: int,
    eos: int | None,
    max_seq_len: int | Tensor,
    length_normalization_exponent: float = 0.0,
) -> SearchResult:
    """
    Beam search for the most probable label sequences (Sutskever et al. 2014, section 3.2). A hypothesis that has ended
    stays in the beam, and competes with the others. The search of a sequence ends when all of its hypotheses have
    ended, or at its limit, as that of a `rec` layer does; hypotheses without an end are results then, too. A score is
    the log probability of the labels, and of the end, unless the hypothesis is as long as the limit: `ended` of the
    result is False then, which can be marked as an output, to see whether the limit is too low.

    :param step: (labels {batch..., beam}, state) -> (log probabilities of the next label {batch..., beam, vocab_dim},
        next state). The state is a nested structure; tensors which depend on the labels have the beam dim
    :param initial_state: called with `batch_dims`, which have the beam dim, too
    :param batch_dims: of the sequences
    :param beam_size: number of hypotheses
    :param vocab_dim: labels, with the end
    :param bos: label before the first one
    :param eos: label at the end; it is not part of the result. None: there is none, and all hypotheses of a sequence
        have `max_seq_len` labels, as where each frame of an input gets one
    :param max_seq_len: limit of labels, with the end: number, or tensor {batch...}, for each sequence its own
    :param length_normalization_exponent: hypotheses are compared by log probability / (number of labels with the
        end) ** exponent (Wu et al. 2016, section 7, without its constants), the `ranking` of the result. Its `scores`
        are without it. The task "search" orders hypotheses by the output "scores": mark the `ranking` as that
    :return: hypotheses
    :raises ConfigError: if a number is not possible
    """
    for name, label in {"bos": bos, "eos": eos}.items():
        if label is not None and vocab_dim.size is not None and not 0 <= label < vocab_dim.size:
            raise ConfigError(f"beam_search: {name}={label} is no label of {vocab_dim}.")
    if beam_size < 1:
        raise ConfigError(f"beam_search: beam_size should be at least 1, not {beam_size}.")
    beam_dim = Dim(beam_size, name="beam")
    search = _Search(step, list(batch_dims), beam_dim, vocab_dim, eos, length_normalization_exponent)
    noted, last, steps_dim = rf.scan(
        initial=search.initial(initial_state, bos),
        cond=lambda _, hyps: rf.logical_not(rf.reduce_all(hyps.ended, axis=beam_dim)),
        cond_dims=batch_dims,
        max_seq_len=max_seq_len,
        body=lambda _, hyps: search.next(hyps),
    )
    labels = follow_back(noted["labels"], noted["came_from"], spatial_dim=steps_dim, beam_dim=beam_dim)
    spatial_dim = Dim(last.length - rf.cast(last.ended, "int32"), name="found")
    labels = first_frames(labels, steps_dim, spatial_dim)
    ranking = search.compared(last.score, last.length)
    return SearchResult(labels, last.score, ranking, beam_dim, spatial_dim, last.model, ended=last.ended)


class _Search:
    """One step of the search. The hypotheses are State(label, score, length, ended, model)."""

    def __init__(
        self,
        step: Callable[[Tensor, Any], tuple[Tensor, Any]],
        batch_dims: list[Dim],
        beam_dim: Dim,
        vocab_dim: Dim,
        eos: int | None,
        exponent: float,
    ) -> None:
        self.step = step
        self.dims = [*batch_dims, beam_dim]
        self.beam_dim = beam_dim
        self.vocab_dim = vocab_dim
        self.eos = eos
        self.exponent = exponent

    def initial(self, initial_state: Callable[..., Any], bos: int) -> rf.State:
        """:return: one hypothesis for each sequence, in the first place of its beam"""
        return rf.State(
            label=rf.full(dims=self.dims, fill_value=bos, dtype="int32", sparse_dim=self.vocab_dim),
            score=rf.copy(only_first(self.dims, self.beam_dim)),
            length=rf.zeros(self.dims, dtype="int32"),
            ended=rf.zeros(self.dims, dtype="bool"),
            model=initial_state(batch_dims=self.dims),
        )

    def next(self, hyps: rf.State) -> tuple[dict[str, Tensor], rf.State]:
        """:return: what to note of this step; the hypotheses after it"""
        log_prob, model = self.step(hyps.label, hyps.model)
        if self.eos is not None:  # what has ended stays by a label that costs nothing
            is_eos = rf.range_over_dim(self.vocab_dim, device=log_prob.device) == self.eos
            stays = rf.where(is_eos, 0.0, NEVER)
            log_prob = rf.where(hyps.ended, rf.cast(stays, log_prob.dtype), log_prob, allow_broadcast_all_sources=True)
        scores = rf.maximum(rf.cast(log_prob, hyps.score.dtype) + hyps.score, NEVER)
        length = hyps.length + rf.cast(rf.logical_not(hyps.ended), "int32")
        key = self.compared(scores, length)
        _, (came_from, label), best_dim = rf.top_k(key, axis=[self.beam_dim, self.vocab_dim], k=self.beam_dim.size)
        came_from, label = (self._as_beam(x, best_dim) for x in (came_from, label))
        score = rf.gather(rf.gather(scores, indices=came_from, axis=self.beam_dim), indices=label, axis=self.vocab_dim)
        ended = rf.gather(hyps.ended, indices=came_from, axis=self.beam_dim)
        after = rf.State(
            label=label,
            score=score,
            length=rf.gather(length, indices=came_from, axis=self.beam_dim),
            ended=ended if self.eos is None else rf.logical_or(ended, label == self.eos),
            model=reorder(model, came_from),
        )
        return {"labels": label, "came_from": came_from}, after

    def compared(self, scores: Tensor, length: Tensor) -> Tensor:
        """
        :param scores: {..., beam}: log probabilities
        :param length: {..., beam}: number of labels, with the end
        :return: {..., beam}: what hypotheses are compared by
        """
        if not self.exponent:
            return scores
        return scores / rf.cast(rf.maximum(length, 1), scores.dtype) ** self.exponent

    def _as_beam(self, x: Tensor, best_dim: Dim) -> Tensor:
        x, _ = rf.replace_dim(x, in_dim=best_dim, out_dim=self.beam_dim)
        return rf.cast(x, "int32").copy_transpose(self.dims)


def only_first(dims: Sequence[Dim], beam_dim: Dim) -> Tensor:
    """:return: {dims}, scores: 0 in the first place of the beam; the others are none"""
    first = rf.range_over_dim(beam_dim) == 0
    scores = rf.cast(rf.where(first, 0.0, NEVER), rf.get_default_float_dtype())
    return rf.expand_dims(scores, [dim for dim in dims if dim != beam_dim]).copy_transpose(dims)
