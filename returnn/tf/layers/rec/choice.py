"""The choice of a label: in search, the best hypotheses; in training, the label of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.layer_base import LayerBase
from returnn.tf.layers.rec.beam import Beam
from returnn.tf.layers.rec.choice_variants import (
    combine_by_user,
    expanded_hypotheses,
    gumbel_noise,
    sampled_labels,
    with_target,
)
from returnn.tf.layers.search_choices import SearchChoices
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

_INPUT_TYPES = ("prob", "log_prob", "logits", "regression")
_SCORE_OF_OTHERS = -1e30  # of the labels that a hypothesis which has ended cannot continue with


class BaseChoiceLayer(LayerBase):
    """Base class of layers that make or end choices."""

    def __init__(
        self,
        beam_size: int | None = None,
        search: bool | type[NotSpecified] = NotSpecified,
        add_to_beam_scores: bool | type[NotSpecified] = NotSpecified,
        **kwargs: Any,
    ) -> None:
        """
        :param beam_size: number of hypotheses to keep
        :param search: whether to search. Default: as the network says
        :param add_to_beam_scores: whether the scores of the choice count. Default: if there is search
        """
        super().__init__(**kwargs)
        self.beam_size = beam_size
        self.search = self.network.search_flag if search is NotSpecified else bool(search)
        self.add_to_beam_scores = add_to_beam_scores


class ChoiceLayer(BaseChoiceLayer):
    """
    The label of this time step.

    With search: the `beam_size` best of all continuations of all hypotheses, by the sum of their scores. Without: the
    label of the target. Source [..., labels]; output sparse, with a beam dim in search.
    """

    layer_class = "choice"

    def __init__(
        self,
        beam_size: int,
        input_type: str = "prob",
        prob_scale: float = 1.0,
        base_beam_score_scale: float = 1.0,
        random_sample_scale: float = 0.0,
        length_normalization: bool = True,
        length_normalization_exponent: float = 1.0,
        keep_beams: bool = False,
        source_beam_sizes: Sequence[int] | None = None,
        scheduled_sampling: bool | dict[str, Any] = False,
        cheating: bool | str = False,
        explicit_search_sources: list[LayerBase] | None = None,
        custom_score_combine: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param beam_size: number of hypotheses to keep
        :param input_type: what the source is: "prob", "log_prob", "logits"; or "regression": the output itself
        :param prob_scale: factor of the scores of this step
        :param base_beam_score_scale: factor of the scores so far
        :param random_sample_scale: if not 0, Gumbel noise is added, with this factor: then it is sampling
        :param length_normalization: scores of hypotheses that have ended grow with those that go on, so that they stay
            comparable by their mean
        :param length_normalization_exponent: exponent of the length in that
        :param keep_beams: each hypothesis keeps its place, and takes the best label
        :param source_beam_sizes: with several sources, so many of the best labels of each are combined
        :param scheduled_sampling: in training, sometimes take a label of the source instead of the target
        :param cheating: the target is always among the hypotheses; "exclusive": exactly once, in the last place
        :param explicit_search_sources: layers whose beams this one continues, too
        :param custom_score_combine: function that combines the scores of this step and those so far
        """
        super().__init__(beam_size=beam_size, **kwargs)
        if input_type not in _INPUT_TYPES:
            raise ConfigError(f"{self.where()}: option 'input_type': {input_type!r}. Possible: {_INPUT_TYPES}.")
        self.input_type = input_type
        self.prob_scale = prob_scale
        self.base_beam_score_scale = base_beam_score_scale
        self.random_sample_scale = random_sample_scale
        self.length_normalization = length_normalization
        self.length_normalization_exponent = length_normalization_exponent
        self.keep_beams = keep_beams
        self.source_beam_sizes = source_beam_sizes
        self.scheduled_sampling = scheduled_sampling
        self.cheating = cheating
        self.explicit_search_sources = explicit_search_sources
        self.custom_score_combine = custom_score_combine

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Any, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`. Without search, the sources are not needed."""
        search = d.get("search", NotSpecified)
        searches = network.search_flag if search is NotSpecified else search
        scores_target = network.search_flag and d.get("add_to_beam_scores", NotSpecified) is not False
        if not (searches or scores_target) and d.get("target") and not d.get("scheduled_sampling"):
            d["from"] = []
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    def must_be_in_loop(self) -> str:
        """:return: a reason, with search"""
        return "searches" if self.search or self._scores_target() else ""

    def _scores_target(self) -> bool:
        """:return: whether the label is that of the target, but its score counts for the hypotheses"""
        return not self.search and self.network.search_flag and self.add_to_beam_scores is not False

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: labels"""
        if self.search or (self._scores_target() and sources):
            return self._searched(*sources)
        if self.scheduled_sampling and sources and self.network.is_training_objective:
            return self._sampled(sources[0])
        return self._label_of_target()

    def _label_of_target(self) -> Tensor:
        target = self.get_target_value()
        if target is None:
            raise ConfigError(f"{self.where()}: the option 'target' is required, as there is no search.")
        return target.copy()

    def _searched(self, *sources: Tensor) -> Tensor:
        frame = self.network.innermost_frame()
        if frame is None:
            raise ConfigError(f"{self.where()}: can only search inside of a loop.")
        beams = self.network.beams
        base_beam = beams.latest([*sources, *(layer.output for layer in self.explicit_search_sources or [])])
        is_first = base_beam is None or base_beam.choice is None  # choice of this step
        base = frame.scores_before() if is_first else base_beam.scores  # [B, beam]
        scores, label_dim = self._scores_of_sources(sources)
        if base is None:
            return self._first_guess(scores, label_dim, base_beam)
        base_beam = beams.of(base)
        assert base_beam is not None
        ended = frame.ended_before()
        if ended is not None:
            ended = beams.translate(ended, base_beam)
            scores, base = self._of_ended(scores, base, ended, label_dim)
        total = self._combined(scores, base, ended, label_dim)
        if not self.search:
            return self._forced(total, label_dim, base_beam)
        return self._select(total, label_dim, base_beam)

    def _scores_of_sources(self, sources: Sequence[Tensor]) -> tuple[Tensor, Dim]:
        """:return: [..., labels], log space; and the labels"""
        scores, label_dim = self._log_scores(sources[0], 0), sources[0].feature_dim
        assert label_dim is not None
        return scores, label_dim

    def _combined(self, scores: Tensor, base: Tensor, ended: Tensor | None, label_dim: Dim) -> Tensor:
        """:return: [B, beam, labels]: scores of all continuations"""
        if self.custom_score_combine is not None:
            return combine_by_user(self, scores, base, ended, label_dim)
        scores = scores if self.prob_scale == 1 else scores * self.prob_scale
        base = base if self.base_beam_score_scale == 1 else base * self.base_beam_score_scale
        total = rf.combine_bc(scores, "+", base)
        if self.random_sample_scale:
            total = total + gumbel_noise(total) * self.random_sample_scale
        return total

    def _log_scores(self, source: Tensor, index: int) -> Tensor:
        label_dim = source.feature_dim
        act = self.sources[index].output_before_activation
        if self.input_type == "logits":
            scores = rf.log_softmax(source, axis=label_dim, use_mask=False)
        elif self.input_type == "log_prob":
            scores = source
        elif act is not None and act.before is not None and act.is_softmax_act_func() and act.after is not None:
            scores = rf.log_softmax(act.before, axis=label_dim, use_mask=False)
            scores = self.network.beams.translate(scores, self.network.beams.of(source))
        else:
            scores = rf.safe_log(source)
        return scores

    def _of_ended(self, scores: Tensor, base: Tensor, ended: Tensor, label_dim: Dim) -> tuple[Tensor, Tensor]:
        """:return: scores and base, where a hypothesis that has ended goes on with label 0 alone, at no cost"""
        first = rf.compare(rf.range_over_dim(label_dim), "==", 0)
        fixed = rf.where(first, 0.0, _SCORE_OF_OTHERS)
        scores = rf.where(ended, fixed, scores, allow_broadcast_all_sources=True)
        if self.length_normalization:
            step = rf.cast(self.network.get_rec_step_info().output, "float32")
            growth = (step + 1.0) / rf.maximum(step, 1.0)
            growth = growth if self.length_normalization_exponent == 1 else growth**self.length_normalization_exponent
            base = base * rf.where(ended, growth, 1.0, allow_broadcast_all_sources=True)
        return scores, base

    def _select(self, scores: Tensor, label_dim: Dim, base_beam: Beam) -> Tensor:
        beam_dim = self.new_dim("beam", self.beam_size, kind=Dim.Types.Beam, auto_generated=False)
        if self.keep_beams:
            best, src_beams, labels = expanded_hypotheses(self, scores, label_dim, base_beam, beam_dim)
        elif self.cheating:
            best, src_beams, labels = with_target(self, scores, label_dim, base_beam, beam_dim)
        else:
            axes = [base_beam.dim, label_dim]
            best, (src_beams, labels), _ = rf.top_k(scores, axis=axes, k=self.beam_size, k_dim=beam_dim)
        return self._chosen(self._as_labels(labels, label_dim), Beam(beam_dim, self, base_beam.dim, src_beams, best))

    def _forced(self, scores: Tensor, label_dim: Dim, base_beam: Beam) -> Tensor:
        """:return: label of the target, for each hypothesis; each of them goes on"""
        beam_dim = self.new_dim("beam", base_beam.dim.dimension, kind=Dim.Types.Beam, auto_generated=False)
        target = self._label_of_target()
        index = target.copy()
        index.sparse_dim = label_dim
        forced = rf.gather(scores, indices=index, axis=label_dim)
        forced, _ = rf.replace_dim(forced, in_dim=base_beam.dim, out_dim=beam_dim)
        src_beams = rf.range_over_dim(beam_dim)
        src_beams.sparse_dim = base_beam.dim
        src_beams = rf.expand_dims(src_beams, [dim for dim in forced.dims if dim not in src_beams.dims])
        labels = rf.expand_dim(target, beam_dim)
        return self._chosen(labels, Beam(beam_dim, self, base_beam.dim, src_beams, forced))

    def _chosen(self, labels: Tensor, beam: Beam) -> Tensor:
        self.network.beams.register(beam)
        self.search_choices = SearchChoices(owner=self, beam_size=beam.dim.dimension or 0)
        if get_selected_backend() != "template":
            assert beam.scores is not None
            self.search_choices.set_tensors(beam.scores, beam.src_beams)
        return labels

    def _sampled(self, source: Tensor) -> Tensor:
        """:return: label of the target, or sometimes one that is drawn from the source (Bengio et al. 2015)"""
        label_dim = source.feature_dim
        options = self.scheduled_sampling if isinstance(self.scheduled_sampling, dict) else {}
        return sampled_labels(self, self._label_of_target(), self._log_scores(source, 0), label_dim, options)

    def _first_guess(self, scores: Tensor, label_dim: Dim, base_beam: Beam | None) -> Tensor:
        """:return: template of the labels, while it is not known yet which hypotheses there are before this step"""
        beam_dim = self.new_dim("beam", self.beam_size, kind=Dim.Types.Beam, auto_generated=False)
        source = None if base_beam is None else base_beam.dim
        dims = [*(dim for dim in scores.dims if dim not in (label_dim, source)), beam_dim]
        src_beams = None if source is None else Tensor("src_beams", dims=dims, dtype="int32", sparse_dim=source)
        scores = Tensor("scores", dims=dims, dtype="float32")
        self.network.beams.register(Beam(beam_dim, self, source, src_beams, scores))
        self.search_choices = SearchChoices(owner=self, beam_size=self.beam_size)
        return self._as_labels(Tensor("labels", dims=dims, dtype="int32"), label_dim)

    def _as_labels(self, labels: Tensor, label_dim: Dim) -> Tensor:
        labels = labels.copy()
        labels.feature_dim = None
        target = self.get_target_value() if self.target else None
        labels.sparse_dim = target.sparse_dim if target is not None and target.sparse_dim is not None else label_dim
        return labels
