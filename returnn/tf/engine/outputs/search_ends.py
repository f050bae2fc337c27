"""What a search could not do in time, or with the scores that it got: hypotheses that are cut, scores above 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from returnn.log import log
from returnn.tf.layers.search.beam import SearchEnd
from returnn.tf.network import TFNetwork

_ROUNDING = 1e-3


class SearchEnds:
    """Counts, over all batches, the best hypotheses of each loop which are not as they should be, and says so."""

    def __init__(self, network: TFNetwork) -> None:
        """:param network: in search"""
        graph = tf.compat.v1.get_default_graph()
        ends = [end for end in network.beams.ends.values() if end.is_cut.raw_tensor.graph is graph]  # not inside a loop
        self._ends = {end.loop.get_absolute_name(): end for end in ends}
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._num_seqs: Counter[str] = Counter()
        self.fetches: dict[str, tf.Tensor] = {}
        for name, end in self._ends.items():
            self.fetches[f"cut/{name}"] = end.is_cut.raw_tensor
            self.fetches[f"best scores/{name}"] = end.scores.raw_tensor

    def count(self, values: Mapping[str, Any]) -> None:
        """:param values: of the fetches"""
        for name in self._ends:
            self._num_seqs[name] += values[f"cut/{name}"].size
            self._numbers["cut", name] += int(values[f"cut/{name}"].sum())
            self._numbers["above", name] += int((values[f"best scores/{name}"] > _ROUNDING).sum())

    def print_warnings(self) -> None:
        """Says what was counted."""
        for name, end in self._ends.items():
            of_all = f"of {self._num_seqs[name]:,} best hypotheses"
            if num := self._numbers["cut", name]:
                log.print_warning(
                    f"{end.loop.where()}: {num:,} {of_all} had not ended where 'max_seq_len' does not let them go on."
                    " They are cut there."
                )
            if (num := self._numbers["above", name]) and _adds_log_probs(end):
                log.print_warning(
                    f"{end.choice.where()}: the scores of {num:,} {of_all} are above 0, so that the source has no"
                    " probabilities, as 'input_type' says."
                )
            if getattr(end.choice, "random_sample_scale", 0):
                log.print_warning(
                    f"{end.choice.where()}: scores of hypotheses contain the noise of 'random_sample_scale', and are"
                    " no log probabilities. These come from scoring the hypotheses again."
                )


def _adds_log_probs(end: SearchEnd) -> bool:
    """:return: whether scores are sums of the logs of probabilities, and of nothing else"""
    options = {"input_type": "prob", "random_sample_scale": 0, "custom_score_combine": None}
    return all(getattr(end.choice, name, None) == value for name, value in options.items())
