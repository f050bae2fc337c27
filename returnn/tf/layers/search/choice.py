"""The choice of a label: in search, the best hypotheses; in training, the label of the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.input_type import input_type_warning
from returnn.tf.layers.search.beam import Beam, score_dtype
from returnn.tf.layers.search.choice_candidates import candidates_of, check_sources
from returnn.tf.layers.search.choice_scores import (
    check_function_of_user,
    combined,
    fixed_if_ended,
    grown_if_ended,
    is_over,
    log_scores,
)
from returnn.tf.layers.search.choice_variants import check_sampling, forced, kept_if_over, sampled_labels, select
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.tf.layers.structure.unavailable_data import check_value_of_target
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.util.errors import ConfigError, check_known
from returnn.util.not_specified import NotSpecified
from returnn.util.texts.counted import counted

_INPUT_TYPES = ("prob", "log_prob", "logits", "regression")


class BaseChoiceLayer(LayerBase):
    """Base class of layers that make or end choices."""

    makes_hypotheses = True

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
        :param add_to_beam_scores: without search, whether the score of the target counts for the hypotheses. Default:
            if the network searches. With search, all scores count
        """
        super().__init__(**kwargs)
        self.beam_size = beam_size
        self.search = self.network.search_flag if search is NotSpecified else bool(search)
        self.add_to_beam_scores = add_to_beam_scores

    @classmethod
    def cls_get_search_beam_size(
        cls,
        network: Network | None = None,
        beam_size: int | None = None,
        search: bool | type[NotSpecified] = NotSpecified,
        add_to_beam_scores: bool | type[NotSpecified] = NotSpecified,
        sources: Sequence[LayerBase] = (),
        **_kwargs: Any,
    ) -> int | None:
        """
        :param network: of the layer
        :param beam_size: option of the layer, like the next ones
        :param sources: of the layer
        :return: number of hypotheses after the choice of such a layer; None if it makes none
        """
        if (network.search_flag if search is NotSpecified else search) and beam_size:
            return beam_size
        if not network.search_flag or add_to_beam_scores is False:
            return None
        beam = network.beams.latest(source.output for source in sources)
        return None if beam is None else beam.dim.dimension


class ChoiceLayer(BaseChoiceLayer):
    """
    The label of this time step.

    With search: the `beam_size` best of all continuations of all hypotheses, by the sum of their scores. Without: the
    label of the target. Source [..., labels]; output sparse, with a beam dim in search.

    With several sources and as many targets, the continuations are combinations of the labels of each source, as if
    these were independent. The labels are the sub layers "name/out_0", "name/out_1", ...; the output is the first one.
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
        explicit_search_sources: list[LayerBase] | dict[Any, LayerBase] | None = None,
        custom_score_combine: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param beam_size: number of hypotheses to keep
        :param input_type: what the sources are: "prob", "log_prob", "logits"; or "regression": the output itself
        :param prob_scale: factor of the scores of this step
        :param base_beam_score_scale: factor of the scores so far
        :param random_sample_scale: if not 0, Gumbel noise is added, with this factor: then it is sampling. The scores
            of hypotheses contain it
        :param length_normalization: scores of hypotheses that have ended grow with those that go on, so that they stay
            comparable by their mean. Behind the loop, the score of a hypothesis, also in n-best lists, is the mean over
            its labels with the one of the end: the sum divided by the length + 1, also in a loop of known length; with
            `include_eos` of the loop, by the length. Otherwise, it is the sum
        :param length_normalization_exponent: exponent of the length in that
        :param keep_beams: each hypothesis goes on, with the best of its labels
        :param source_beam_sizes: with several sources, so many of the best labels of each are combined. Default: as
            many as hypotheses
        :param scheduled_sampling: in training, take a label that is drawn from the source. A dict can say how often to
            take the target: "gold_mixin_prob", and for what to decide it at once: "gold_mixin_axis"
        :param cheating: the target is always among the hypotheses, in the last place; "exclusive": there alone
        :param explicit_search_sources: layers whose beams this one continues, too; with names of their own for
            `custom_score_combine`, which finds them in the attribute `explicit_search_sources` of the layer
        :param custom_score_combine: function that combines the scores of this step and those so far
        """
        super().__init__(beam_size=beam_size, **kwargs)
        check_known("input_type", input_type, _INPUT_TYPES, where=self.where())
        if cheating not in (False, None, True, "exclusive"):
            raise ConfigError(f"{self.where()}: option 'cheating': {cheating!r}. Possible: False, True, 'exclusive'.")
        if isinstance(beam_size, bool) or not isinstance(beam_size, int) or beam_size < 1:
            raise ConfigError(f"{self.where()}: option 'beam_size': expected a number above 0, got {beam_size!r}.")
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
        self._sampling_options = check_sampling(scheduled_sampling, where=self.where()) if scheduled_sampling else {}
        self._labels: list[Tensor] = []
        self._check_combination()

    def _check_combination(self) -> None:
        """:raises ConfigError: if options contradict each other"""
        if self.search and self.add_to_beam_scores is False:
            raise ConfigError(
                f"{self.where()}: option 'add_to_beam_scores': False is only possible without search.\n"
                "  Give 'search': False as well, so that the choice takes the label of the target."
            )
        if self.custom_score_combine is not None:
            check_function_of_user(self.custom_score_combine, where=self.where())
        if self.search and not self.sources:
            raise ConfigError(f"{self.where()}: option 'from': a search needs a source with the scores of the labels.")
        if self.keep_beams and self.cheating:
            raise ConfigError(f"{self.where()}: the options 'keep_beams' and 'cheating' exclude each other.")
        if self.input_type == "regression" and len(self.sources) > 1:
            raise ConfigError(f"{self.where()}: option 'input_type': 'regression' is only possible with one source.")

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `LayerBase.transform_config_dict`. Without search, the sources are not needed."""
        search = d.get("search", NotSpecified)
        searches = network.search_flag if search is NotSpecified else search
        scores_target = network.search_flag and d.get("add_to_beam_scores", NotSpecified) is not False
        if not (searches or scores_target) and d.get("target") and not d.get("scheduled_sampling"):
            d["from"] = []
        if isinstance(named := d.get("explicit_search_sources"), str):
            raise ConfigError(f"option 'explicit_search_sources': expected a list or dict of layers, got {named!r}.")
        if "explicit_search_source" in d:
            given, one = d.get("explicit_search_sources") or (), d.pop("explicit_search_source")
            d["explicit_search_sources"] = {**given, "": one} if isinstance(given, Mapping) else [*given, one]
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    def must_be_in_loop(self) -> str:
        """:return: a reason, with search"""
        return "searches" if self._scores_labels() else ""

    def _scores_labels(self) -> bool:
        """:return: whether the scores of labels count for hypotheses"""
        scores_target = self.network.search_flag and self.add_to_beam_scores is not False
        return (self.search or scores_target) and self.input_type != "regression"

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: labels"""
        self._labels = self._compute_labels(*sources)
        return self._labels[0]

    def _compute_labels(self, *sources: Tensor) -> list[Tensor]:
        """:return: labels of each source"""
        if self._scores_labels() and (self.search or sources):
            return self._searched(*sources)
        if self.search:
            return [sources[0].copy()]
        if self.scheduled_sampling and sources and self.network.is_training_objective:
            check_sources(self)
            scores = [log_scores(self, i, source) for i, source in enumerate(sources)]
            labels = zip(self._labels_of_target(), scores, strict=True)
            return [self._sampled_in_training(target, x) for target, x in labels]
        return self._labels_of_target()

    def _sampled_in_training(self, target: Tensor, log_probs: Tensor) -> Tensor:
        """:return: sampled labels; those of the target where this step does not train: dev data has the same graph"""
        sampled = sampled_labels(target, log_probs, self._sampling_options)
        in_training = rf.get_run_ctx().train_flag
        if isinstance(in_training, bool):
            return sampled if in_training else target
        return rf.where(in_training, sampled, target).copy_with_roles(sparse_dim=target.sparse_dim)

    def _labels_of_target(self) -> list[Tensor]:
        targets = [self.get_target_value(key) for key in self.targets or ()]
        if not targets:
            why = f"with 'cheating': {self.cheating!r}" if self.search else "as there is no search"
            raise ConfigError(f"{self.where()}: the option 'target' is required, {why}.")
        for target in targets:
            check_value_of_target(self, target)
        return [target.copy() for target in targets]

    def _searched(self, *sources: Tensor) -> list[Tensor]:
        frame = self.network.step.innermost_frame()
        if frame is None:
            raise ConfigError(f"{self.where()}: can only search inside of a loop.")
        check_sources(self)
        if self.search:
            self.warning = input_type_warning(self, self.input_type, _INPUT_TYPES[:-1])
        beams = self.network.beams
        given = self.explicit_search_sources or ()
        explicit = [layer.output for layer in (given.values() if isinstance(given, Mapping) else given)]
        before = frame.scores_before()  # [B, beam]
        targets = [] if self.search else self._labels_of_target()
        base_beam = beams.latest(
            [*sources, *explicit, *targets, *([] if before is None else [before])], where=self.where()
        )
        is_first = base_beam is None or base_beam.choice is None  # choice of this step
        base = before if is_first else base_beam.scores
        scores = [rf.cast(log_scores(self, i, source), score_dtype()) for i, source in enumerate(sources)]
        if base is None:
            return self._first_guess(scores, base_beam)
        base_beam = beams.of(base)
        assert base_beam is not None
        ended, before_step = frame.ended_before(), base
        targets = [beams.translate(target, base_beam) for target in targets or self._targets_of_cheating()]
        if ended is not None:
            ended = beams.translate(ended, base_beam)
            scores, base = [fixed_if_ended(self, x, ended) for x in scores], grown_if_ended(self, base, ended)
            targets = [_zero_if(target, ended) for target in targets]
        candidates = candidates_of(self, scores, targets)
        size = self.beam_size if self.search else base_beam.dim.dimension
        beam_dim = self.new_dim("beam", size, kind=Dim.Types.Beam, auto_generated=False)
        if self.custom_score_combine is not None:
            self.output = self._seen_by_user(scores[0], beam_dim)
        total = combined(self, candidates.scores, base, ended, candidates.dim)
        found = (select if self.search else forced)(self, total, candidates, base_beam, beam_dim)
        best, src_beams, index = kept_if_over(found, is_over(self, ended), before_step, base_beam, beam_dim)
        self._register(Beam(beam_dim, self, base_beam.dim, src_beams, best))
        if not self.search:
            return [beams.renamed(rf.expand_to(target, [base_beam.dim]), beam_dim) for target in targets]
        return [self._as_labels(x, i) for i, x in enumerate(candidates.chosen(index, src_beams))]

    def _targets_of_cheating(self) -> list[Tensor]:
        return self._labels_of_target() if self.cheating else []

    def _register(self, beam: Beam) -> None:
        self.search_choices = SearchChoices(owner=self, beam_size=beam.dim.dimension or 0)
        self.search_choices.set_beam(beam)

    def _first_guess(self, scores: Sequence[Tensor], base_beam: Beam | None) -> list[Tensor]:
        """:return: templates of the labels, while it is not known yet which hypotheses there are before this step"""
        beam_dim = self.new_dim("beam", self.beam_size, kind=Dim.Types.Beam, auto_generated=False)
        source = None if base_beam is None else base_beam.dim
        dims = [*(dim for dim in scores[0].dims if dim not in (scores[0].feature_dim, source)), beam_dim]
        src_beams = None if source is None else Tensor("src_beams", dims=dims, dtype="int32", sparse_dim=source)
        self._register(Beam(beam_dim, self, source, src_beams, Tensor("scores", dims=dims, dtype=score_dtype())))
        count = max(len(scores), len(self.targets or ()))
        sparse_dims = [x.feature_dim for x in scores] + [None] * (count - len(scores))
        labels = [Tensor("labels", dims=dims, dtype="int32", sparse_dim=dim) for dim in sparse_dims]
        return [self._as_labels(x, i) for i, x in enumerate(labels)]

    def _seen_by_user(self, scores: Tensor, beam_dim: Dim) -> Tensor:
        """:return: [B * beam]: template of the labels, as code of a user sees it, which may want their number"""
        batch = [dim for dim in scores.dims if dim.is_batch_dim()]
        labels = Tensor(self.name, [*batch, beam_dim], "int32", sparse_dim=scores.feature_dim)
        with rf.backend_ctx("template"):
            return BeamAxis(batch[0], beam_dim).merge(self._as_labels(labels, 0))

    def _as_labels(self, labels: Tensor, index: int) -> Tensor:
        labels = labels.copy_with_roles(feature_dim=None)
        target = self.get_target_value(self.targets[index]) if self.targets else None
        if target is not None and target.sparse_dim is not None:
            self._check_size(labels.sparse_dim, target.sparse_dim, index)
            labels = labels.copy_with_roles(sparse_dim=target.sparse_dim)
        return labels

    def _check_size(self, of_source: Dim | None, of_target: Dim, index: int) -> None:
        if of_source is None or None in (of_source.size, of_target.size) or of_source.size == of_target.size:
            return
        raise ConfigError(
            f"{self.where()}: the source {self.sources[index].name!r} has scores of {counted(of_source.size, 'label')},"
            f" but the target {self.targets[index]!r} has {counted(of_target.size, 'label')}.\n"
            "  Option 'from': the layer with a score for each label, such as a 'softmax' with this target."
        )

    # The labels of several sources.

    @classmethod
    def get_available_sub_layer_names(cls, parent_layer_kwargs: dict[str, Any]) -> list[str]:
        """:return: "out_0", "out_1", ..., one for each target"""
        targets = parent_layer_kwargs.get("target")
        return [f"out_{i}" for i in range(len(targets))] if isinstance(targets, (list, tuple)) else []

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: labels of one of the sources"""
        index = layer_name.removeprefix("out_")
        if index == layer_name or not index.isdigit() or int(index) >= len(self._labels):
            return None
        labels = self._labels[int(index)].copy()
        labels.version = 1
        return InternalLayer(
            name=f"{self.name}/{layer_name}",
            network=self.network,
            output=labels,
            sources=[self],
            initial_output=self._initial_output,
        )


def _zero_if(target: Tensor, ended: Tensor) -> Tensor:
    """:return: the target, but label 0 where the sequence has ended, whatever is there in memory"""
    out = rf.where(ended, 0, target, allow_broadcast_all_sources=True)
    return out.copy_with_roles(sparse_dim=target.sparse_dim)
