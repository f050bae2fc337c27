"""Losses about the hypotheses of a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.floors.layer_targets import LayerTargets
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.registry import get_loss_class
from returnn.tf.layers.search.beam import Beam
from returnn.util.errors import ConfigError, check_known


class _OnHypotheses(Loss):
    """Base class of losses that need the scores of a search."""

    recurrent = True

    def hypotheses(self) -> Beam:
        """
        :return: the hypotheses of the output, with scores
        :raises ConfigError: if it does not come from a search
        """
        beam = None if self.layer is None else _beam_of(self.layer)
        if beam is None or beam.scores is None:
            raise ConfigError(f"{self.where()}: the output {self.output} does not come from a search.")
        return beam

    def has_all_hypotheses(self) -> bool:
        """:return: whether the output has the hypotheses, and not only the best one"""
        beam, batch = self.hypotheses(), self.output.get_batch_dim_tag()
        return beam.dim in self.output.dims or batch_dim * beam.dim == batch


class SearchScoreLoss(_OnHypotheses):
    """Minus the score of each hypothesis."""

    class_name = "search_score"
    need_target = False

    def value_per_frame(self) -> Tensor:
        """:return: [B, beam]; [B] for the best hypothesis alone"""
        beam = self.hypotheses()
        scores = beam.scores if self.has_all_hypotheses() else rf.reduce_max(beam.scores, axis=beam.dim)
        return rf.neg(scores)

    def error_per_frame(self) -> None:
        """:return: there is none"""
        return


class ExpectedLoss(_OnHypotheses):
    """
    The expected value of another loss or error, over the hypotheses: `sum_h p(h) loss(h)`.

    With the edit distance, this is minimum Bayes risk training (Shannon 2017, Prabhavalkar et al. 2018).
    """

    class_name = "expected_loss"

    def __init__(
        self,
        loss: Loss,
        loss_kind: str,
        norm_scores: bool = True,
        norm_scores_stop_gradient: bool = True,
        divide_beam_size: bool = True,
        subtract_average_loss: bool = True,
        loss_correction_grad_only: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param loss: the other loss: a dict with "class" and options
        :param loss_kind: "value" or "error"
        :param norm_scores: the probabilities of the hypotheses sum up to 1
        :param norm_scores_stop_gradient: the gradient does not know that
        :param divide_beam_size: divide by the number of hypotheses
        :param subtract_average_loss: subtract the mean over the hypotheses from the other loss
        :param loss_correction_grad_only: that only changes the gradient, not the value
        """
        super().__init__(**kwargs)
        check_known("loss_kind", loss_kind, ("value", "error"), where="loss 'expected_loss'")
        self.loss = loss
        self.loss_kind = loss_kind
        self.norm_scores = norm_scores
        self.norm_scores_stop_gradient = norm_scores_stop_gradient
        self.divide_beam_size = divide_beam_size
        self.subtract_average_loss = subtract_average_loss
        self.loss_correction_grad_only = loss_correction_grad_only

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """See `Loss.transform_config_dict`. The other loss is made."""
        super().transform_config_dict(d, network=network, get_layer=get_layer)
        options = dict(d.get("loss") or {})
        if "class" not in options:
            raise ConfigError("loss 'expected_loss': 'loss' has to be a dict with 'class' and the options of a loss.")
        loss_class = get_loss_class(options.pop("class"))
        loss_class.transform_config_dict(options, network=network, get_layer=get_layer)
        d["loss"] = loss_class(base_network=network, **options)

    def init(self, output: Tensor, target: Tensor | None = None, **kwargs: Any) -> None:
        """See `Loss.init`."""
        super().init(output=output, target=target, **kwargs)
        self.loss.init(output=output, target=target, **kwargs)

    def value_per_frame(self) -> Tensor:
        """:return: [B, beam]"""
        hypotheses = self.hypotheses()
        scores, beam = hypotheses.scores, hypotheses.dim
        assert scores is not None
        probability = rf.exp(self._normalized(scores, beam))
        loss = self._loss_of_hypotheses(beam)
        value = self._corrected(probability, loss, beam)
        return value * (1.0 / beam.get_dim_value()) if self.divide_beam_size else value

    def error_per_frame(self) -> None:
        """:return: there is none"""
        return

    def _normalized(self, scores: Tensor, beam: Dim) -> Tensor:
        if not self.norm_scores:
            return scores
        total = rf.reduce_logsumexp(scores, axis=beam, use_mask=False)
        return scores - (rf.stop_gradient(total) if self.norm_scores_stop_gradient else total)

    def _loss_of_hypotheses(self, beam: Dim) -> Tensor:
        """:return: [B, beam]"""
        loss = self.loss.error_per_frame() if self.loss_kind == "error" else self.loss.value_per_frame()
        if loss is None:
            raise ConfigError(f"{self.where()}: the loss {self.loss.class_name!r} has no {self.loss_kind}.")
        merged = batch_dim * beam
        if merged in loss.dims:
            loss = rf.split_dims(loss, axis=merged, dims=[batch_dim, beam])
        frames = [dim for dim in loss.dims if dim not in (batch_dim, beam)]
        return rf.reduce_sum(loss, axis=frames) if frames else loss

    def _corrected(self, probability: Tensor, loss: Tensor, beam: Dim) -> Tensor:
        if not self.subtract_average_loss:
            return probability * loss
        corrected = probability * (loss - rf.reduce_mean(loss, axis=beam, use_mask=False))
        if not self.loss_correction_grad_only:
            return corrected
        return corrected + rf.stop_gradient(probability * loss - corrected)


def _beam_of(layer: LayerTargets) -> Beam | None:
    """:return: the beam of the output; or the one that the layer, or those before it, decided on"""
    todo = [layer]
    for current in todo:  # grows in here
        beams = current.network.beams
        beam = beams.of(current.output)
        if beam is None and current.output.have_batch_axis():
            beam = beams.of_merged(current.output.get_batch_dim_tag())
        if beam is not None:
            return beam
        todo += [dep for dep in current.get_dep_layers() if dep not in todo]
    return None
