"""Search frame by frame: in each frame, a hypothesis gets a label, or blank (CTC, transducers)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import returnn.frontend as rf
from returnn.frontend.search.label_synchronous import only_first
from returnn.frontend.search.result import NEVER, SearchResult, follow_back, reorder
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError

# A label sequence is told from others by two numbers, each modulo a prime. That two different ones among a billion
# pairs are taken for the same has a probability of about 2e-10.
_HASHES = ((1_000_003, 2_147_483_647), (998_244_353, 2_147_483_629))


def time_synchronous_search(
    score: Callable[[Any, Any], Tensor],
    *,
    xs: Any,
    spatial_dim: Dim,
    batch_dims: Sequence[Dim],
    beam_size: int,
    wb_dim: Dim,
    blank: int,
    label_loop: bool,
    advance: Callable[[Tensor, Any], Any] | None = None,
    initial_state: Callable[..., Any] | None = None,
    label_score: Callable[[Any], Tensor] | None = None,
    merge: Literal["sum", "max"] = "sum",
) -> SearchResult:
    """
    Beam search over alignments. Hypotheses with the same labels are merged in each frame: with "sum", a label sequence
    gets the probability of all its alignments in the beam (prefix search, Graves et al. 2006, Hannun et al. 2014).

    :param score: (frame of xs, state) -> log probabilities {batch..., beam, wb_dim}; {batch..., wb_dim}, if they do
        not depend on the labels before, as in CTC
    :param xs: nested structure of tensors with `spatial_dim`, such as the encoder's output
    :param spatial_dim: the frames
    :param batch_dims: of the sequences
    :param beam_size: number of prefixes that are kept. With `label_loop`, one that ends in a label and the same with
        a blank behind it are two, and one hypothesis at the end, so that there can be fewer of these. Their scores are
        sums over the alignments that the beam has kept
    :param wb_dim: labels, with blank
    :param blank: index of blank
    :param label_loop: whether frames with the same label behind each other are one label, as in CTC
    :param advance: (labels {batch..., beam}, state) -> state; what it gives counts for the hypotheses that got a new
        label. Default: the state stays
    :param initial_state: called with `batch_dims`, which have the beam dim, too. Default: there is no state
    :param label_score: state -> {batch..., beam, wb_dim}: added where a new label begins, such as scores of a language
        model
    :param merge: "sum" or "max" of the probabilities of alignments
    :return: hypotheses; `labels` have the sparse dim `wb_dim`, without blank
    :raises ConfigError: if a value is not possible
    """
    if wb_dim.size is not None and not 0 <= blank < wb_dim.size:
        raise ConfigError(f"time_synchronous_search: blank={blank} is no label of {wb_dim}.")
    if beam_size < 1:
        raise ConfigError(f"time_synchronous_search: beam_size should be at least 1, not {beam_size}.")
    if merge not in ("sum", "max"):
        raise ConfigError(f"time_synchronous_search: merge should be 'sum' or 'max', not {merge!r}.")
    search = _Search(score, label_score, advance, list(batch_dims), beam_size, wb_dim, blank, label_loop, merge)
    model = None if initial_state is None else initial_state(batch_dims=search.dims)
    noted, hyps, _ = rf.scan(spatial_dim=spatial_dim, xs=xs, initial=search.initial(model), body=search.next)
    place, scores = search.best(hyps)
    alignment = follow_back(
        noted["labels"], noted["came_from"], spatial_dim=spatial_dim, beam_dim=search.beam_dim, last=place
    )
    begins = search.begins_label(alignment, rf.shift_right(alignment, axis=spatial_dim, pad_value=blank))
    labels, found_dim = rf.masked_select(alignment, mask=begins, dims=[spatial_dim])
    return SearchResult(labels, scores, scores, search.beam_dim, found_dim, reorder(hyps.model, place), alignment)


class _Search:
    """The hypotheses are State(score, last, hashes, model); `last`: their symbol in the frame before."""

    def __init__(
        self,
        score: Callable[[Any, Any], Tensor],
        label_score: Callable[[Any], Tensor] | None,
        advance: Callable[[Tensor, Any], Any] | None,
        batch_dims: list[Dim],
        beam_size: int,
        wb_dim: Dim,
        blank: int,
        label_loop: bool,
        merge: str,
    ) -> None:
        self.score = score
        self.label_score = label_score
        self.advance = advance
        self.beam_dim = Dim(beam_size, name="beam")
        self.dims = [*batch_dims, self.beam_dim]
        self.wb_dim = wb_dim
        self.blank = blank
        self.label_loop = label_loop
        self.merge = merge

    def initial(self, model: Any) -> rf.State:
        """:return: one hypothesis for each sequence, in the first place of its beam"""
        return rf.State(
            score=only_first(self.dims, self.beam_dim),
            last=rf.full(dims=self.dims, fill_value=self.blank, dtype="int32", sparse_dim=self.wb_dim),
            hashes=[rf.zeros(self.dims, dtype="int64") for _ in _HASHES],
            model=rf.State() if model is None else model,
        )

    def begins_label(self, symbol: Tensor, before: Tensor) -> Tensor:
        """:return: whether a symbol is a new label, behind the one of the frame before"""
        is_label = symbol != self.blank
        return rf.logical_and(is_label, symbol != before) if self.label_loop else is_label

    def next(self, frame: Any, hyps: rf.State) -> tuple[dict[str, Tensor], rf.State]:
        """:return: what to note of this frame; the hypotheses after it"""
        log_prob = rf.cast(self.score(frame, hyps.model), hyps.score.dtype)
        if self.label_score is not None:  # it counts once for a label, not for each of its frames
            symbols = rf.range_over_dim(self.wb_dim, device=log_prob.device)
            begins = symbols != self.blank
            if self.label_loop:
                begins = rf.logical_and(begins, rf.compare_bc(symbols, "!=", hyps.last))
            further = rf.cast(self.label_score(hyps.model), hyps.score.dtype)
            log_prob = rf.combine_bc(log_prob, "+", rf.where(begins, further, 0.0, allow_broadcast_all_sources=True))
        scores = rf.maximum(rf.combine_bc(hyps.score, "+", log_prob), NEVER)
        assert self.beam_dim.size is not None
        # Some of them turn out to have the same labels below, and become one. So more than a beam is taken at first.
        candidates = min(2 * self.beam_dim.size, self.beam_dim.size * self.wb_dim.dimension)
        score, (came_from, symbol), candidate_dim = rf.top_k(scores, axis=[self.beam_dim, self.wb_dim], k=candidates)
        came_from, symbol = rf.cast(came_from, "int32"), rf.cast(symbol, "int32")
        before = rf.gather(hyps.last, indices=came_from, axis=self.beam_dim)
        begins = self.begins_label(symbol, before)
        # To compare the labels themselves takes longer, the more there are; two hashes of them are compared instead.
        hashes = [
            self._extended(rf.gather(number, indices=came_from, axis=self.beam_dim), symbol, begins, *constants)
            for number, constants in zip(hyps.hashes, _HASHES, strict=True)
        ]
        key = [*hashes, symbol] if self.label_loop else hashes
        merged = self._merged(score, key, candidate_dim)
        best, chosen, best_dim = rf.top_k(merged, axis=candidate_dim, k=self.beam_dim.size)

        def take(x: Tensor) -> Tensor:
            return self._as_beam(rf.gather(x, indices=chosen, axis=candidate_dim), best_dim)

        came_from, symbol, begins = take(came_from), take(symbol), take(begins)
        model = reorder(hyps.model, came_from)
        if self.advance is not None:
            model = rf.nested.where_nested(self.advance(symbol, model), model, condition=begins)
        after = rf.State(
            score=self._as_beam(best, best_dim), last=symbol, hashes=[take(number) for number in hashes], model=model
        )
        return {"labels": symbol, "came_from": came_from}, after

    def best(self, hyps: rf.State) -> tuple[Tensor, Tensor]:
        """:return: {batch..., beam}: the places of hypotheses with different labels, the best first; their scores"""
        merged = self._merged(hyps.score, hyps.hashes, self.beam_dim)
        scores, place, best_dim = rf.top_k(merged, axis=self.beam_dim, k=self.beam_dim.size)
        return rf.cast(self._as_beam(place, best_dim), "int32"), self._as_beam(scores, best_dim)

    def _extended(self, number: Tensor, symbol: Tensor, begins: Tensor, factor: int, modulus: int) -> Tensor:
        symbol = rf.cast(symbol.copy_with_roles(sparse_dim=None), "int64")
        return rf.where(begins, (number * factor + symbol + 1) % modulus, number)

    def _merged(self, score: Tensor, key: Sequence[Tensor], dim: Dim) -> Tensor:
        """:return: the scores of `dim`; of several hypotheses with the same key, the first one has the score of all"""
        other_dim = Dim(dim.size, name="other")
        same: Any = None
        for number in key:
            number = number.copy_with_roles(sparse_dim=None)
            other, _ = rf.replace_dim(number, in_dim=dim, out_dim=other_dim)
            equal = rf.compare_bc(number, "==", other)
            same = equal if same is None else rf.logical_and(same, equal)
        position = rf.range_over_dim(dim, device=score.device).copy_with_roles(sparse_dim=None)
        other_position = rf.range_over_dim(other_dim, device=score.device).copy_with_roles(sparse_dim=None)
        is_before = rf.compare_bc(other_position, "<", position)
        is_repeated = rf.reduce_any(rf.logical_and(same, is_before.copy_compatible_to_dims(same.dims)), axis=other_dim)
        if self.merge == "sum":
            other_score, _ = rf.replace_dim(score, in_dim=dim, out_dim=other_dim)
            of_same = rf.where(same, other_score, NEVER, allow_broadcast_all_sources=True)
            score = rf.maximum(rf.reduce_logsumexp(of_same, axis=other_dim), NEVER)
        return rf.where(is_repeated, NEVER, score)

    def _as_beam(self, x: Tensor, best_dim: Dim) -> Tensor:
        x, _ = rf.replace_dim(x, in_dim=best_dim, out_dim=self.beam_dim)
        return x.copy_transpose(self.dims)
