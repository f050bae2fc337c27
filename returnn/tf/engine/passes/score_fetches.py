"""What a step fetches for the scores, see `returnn.engine.run.scores`."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.network import TFNetwork


def score_fetches(network: TFNetwork) -> dict[str, tf.Tensor]:
    """
    :return: what to fetch in each step: `loss:NAME`, `error:NAME` (sums) and `norm:NAME` (1 / number of frames), and
        `uncounted:LAYER`
    """
    fetches = _uncounted(network)
    for name, loss in network.losses_dict.items():
        values = {"loss": loss.get_loss_value_for_fetch(), "error": loss.get_error_value()}
        values = {kind: value for kind, value in values.items() if value is not None}
        fetches.update({f"{kind}:{name}": tf.convert_to_tensor(value) for kind, value in values.items()})
        if values:
            fetches[f"norm:{name}"] = tf.convert_to_tensor(loss.get_norm_factor())
    return fetches


def _uncounted(network: TFNetwork) -> dict[str, tf.Tensor]:
    """:return: numbers of sequences without alignment, of layers outside of loops"""
    graph = tf.compat.v1.get_default_graph()
    numbers = {
        f"uncounted:{layer.get_absolute_name()}": layer.num_uncounted_seqs.raw_tensor
        for layer in network.get_all_layers_deep()
        if layer.num_uncounted_seqs is not None
    }
    return {name: number for name, number in numbers.items() if number.graph is graph}


def cross_entropies(losses: Mapping[str, LossHolder]) -> list[str]:
    """:return: names of the losses which are the negative log probability of the target"""
    return [name for name, loss in losses.items() if loss.loss.has_perplexity]
