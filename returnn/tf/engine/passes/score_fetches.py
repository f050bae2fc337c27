"""What a step fetches for the scores, see `returnn.engine.run.scores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import batch_dim
from returnn.tf.engine.session.graph_ops import ops_before
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.network import TFNetwork

_UNALIGNED, _IS_UNALIGNED = "unaligned", "is_unaligned"


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


def unaligned_fetches(network: TFNetwork, fetches: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """
    :param network: with layers of alignments, or without
    :param fetches: of a step: what does not compute such a layer does not have to do so for this
    :return: what else to fetch: `unaligned:LAYER`, the number of sequences without an alignment, and
        `is_unaligned:LAYER`, which of the batch these are
    """
    found: dict[str, tf.Tensor] = {}
    layers = [layer for layer in network.get_all_layers_deep() if layer.is_without_path is not None]
    needed = ops_before(dict(fetches)) if layers else set()
    for layer in layers:
        if layer.is_without_path.dims != (batch_dim,):
            continue  # of hypotheses
        if layer.output.raw_tensor.op in needed or layer.output_loss.raw_tensor.op in needed:
            name, is_without = layer.get_absolute_name(), layer.is_without_path
            with network.construction.compute_scope(layer, suffix="unaligned"):
                number = rf.reduce_sum(rf.cast(is_without, "int32"), axis=is_without.dims)
            found[f"{_UNALIGNED}:{name}"] = number.raw_tensor
            found[f"{_IS_UNALIGNED}:{name}"] = is_without.raw_tensor
    return found


def numbers_of_unaligned(fetches: Mapping[str, Any]) -> dict[str, Any]:
    """:return: of the fetches, the numbers of sequences without an alignment, to be summed over parts of a batch"""
    return {key: value for key, value in fetches.items() if key.startswith(f"{_UNALIGNED}:")}


def first_unaligned(values: Mapping[str, Any], tags: Sequence[str]) -> dict[str, str]:
    """
    :param values: of the fetches, of which those of `unaligned_fetches` are used
    :param tags: of the sequences of the batch
    :return: by layer of alignments: the first sequence without one, if there is one
    """
    found = {}
    for key, value in values.items():
        kind, _, name = key.partition(":")
        if kind == _IS_UNALIGNED and len(value) == len(tags) and value.any():  # it is of a part, if memory ended
            found[name] = tags[int(value.argmax())]
    return found


def cross_entropies(losses: Mapping[str, LossHolder]) -> list[str]:
    """:return: names of the losses which are the negative log probability of the target"""
    return [name for name, loss in losses.items() if loss.loss.has_perplexity]
