"""Losses and errors of an epoch: sums over all batches, divided by the number of frames at its end."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from returnn.engine.score_names import EXP_SUFFIX, named_scores

_UNCOUNTED, _UNALIGNED = "uncounted", "unaligned"


@dataclass
class Scores:
    """Sums of losses and errors, and of their frames."""

    with_exp: bool = False  # also the exp of mean losses: perplexity, if it is cross entropy
    all_are_losses: bool = False  # how they are named, see `named_scores`
    sums: dict[str, float] = field(
        default_factory=dict
    )  # "loss:NAME", "error:NAME", and numbers of sequences, see `add`
    num_frames: dict[str, float] = field(default_factory=dict)  # by NAME
    left_out: dict[str, int] = field(default_factory=dict)  # sequences of the data, by the option that leaves them out

    def add(self, values: Mapping[str, Any]) -> dict[str, float]:
        """
        :param values: of a step: `loss:NAME`, `error:NAME` (sums) and `norm:NAME` (1 / number of frames);
            `uncounted:LAYER`, the number of sequences whose loss is 0, as they have no alignment; `unaligned:LAYER`,
            that of those for which a layer of alignments has none
        :return: means over the frames of this step
        """
        means = {}
        for key, value in values.items():
            kind, _, name = key.partition(":")
            if kind == "norm":
                self.num_frames[name] = self.num_frames.get(name, 0.0) + _inverse(value)
            elif kind in ("loss", "error", _UNCOUNTED, _UNALIGNED):
                self.sums[key] = self.sums.get(key, 0.0) + float(value)
            if kind in ("loss", "error"):
                means[key] = float(value) * float(values[f"norm:{name}"])
        return means

    def means(self) -> dict[str, float]:
        """:return: per frame, `loss:NAME` and `error:NAME`; maybe also `loss:NAME:exp`"""
        means = {
            key: total / (self.num_frames[name] or 1.0)
            for key, total in self.sums.items()
            for kind, _, name in [key.partition(":")]
            if kind in ("loss", "error")
        }
        if self.with_exp:
            means.update(
                {f"{key}{EXP_SUFFIX}": perplexity_of(mean) for key, mean in means.items() if key.startswith("loss:")}
            )
        return means

    def uncounted(self) -> dict[str, int]:
        """:return: by layer with a CTC loss: the number of sequences without alignment, if there are any"""
        return self._numbers_of_seqs(_UNCOUNTED)

    def unaligned(self) -> dict[str, int]:
        """:return: by layer of alignments: the number of sequences for which it has none, if there are any"""
        return self._numbers_of_seqs(_UNALIGNED)

    def _numbers_of_seqs(self, kind: str) -> dict[str, int]:
        numbers = {key.partition(":")[2]: int(n) for key, n in self.sums.items() if key.startswith(f"{kind}:")}
        return {layer: number for layer, number in numbers.items() if number}

    def for_learning_rate_control(self, dataset_name: str) -> dict[str, float]:
        """:return: means, named as in the learning-rate file"""
        return named_scores(dataset_name, self.means(), all_are_losses=self.all_are_losses)

    def only_errors(self) -> set[str]:
        """:return: names of what has an error and no loss"""
        errors, losses = (
            {name for key in self.sums for kind, _, name in [key.partition(":")] if kind == wanted}
            for wanted in ("error", "loss")
        )
        return errors - losses


def with_perplexities(scores: Mapping[str, float], cross_entropies: Collection[str]) -> dict[str, float]:
    """
    :param scores: means over all frames, by `loss:NAME` and `error:NAME`
    :param cross_entropies: names of such losses
    :return: the same, and `perplexity:NAME` for each of these
    """
    of_losses = {name: scores[f"loss:{name}"] for name in cross_entropies if f"loss:{name}" in scores}
    return {**scores, **{f"perplexity:{name}": perplexity_of(mean) for name, mean in of_losses.items()}}


def describe_scores(scores: Mapping[str, float]) -> str:
    """
    :param scores: as those of `with_perplexities`
    :return: for people
    """
    return ", ".join(f"{key.replace(':', ' ')} {value:.6g}" for key, value in sorted(scores.items()))


def perplexity_of(score: float) -> float:
    """:param score: mean cross entropy"""
    try:
        return math.exp(score)
    except OverflowError:
        return math.inf


def _inverse(norm_factor: Any) -> float:
    value = float(numpy.asarray(norm_factor))
    return 1.0 / value if value and numpy.isfinite(value) else 0.0
