"""Targets that a search could not find, as `max_seq_len` of its loop ends hypotheses before."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.datasets.core.dataset_seq import Array
from returnn.engine.report.compared_lengths import evaluated_lengths
from returnn.engine.report.data_sample import DataSample
from returnn.tensor import Dim, Tensor
from returnn.tf.inspection.found_layers import FoundLayer
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.loop.compile import CompiledLoop
from returnn.tf.layers.rec.frames_of_loop import layer_of_limit, layers_in_limit
from returnn.tf.layers.search.choice import ChoiceLayer

tf1 = tf.compat.v1


def limit_warnings(
    layers: Sequence[FoundLayer], samples: Mapping[str, DataSample], templates: Mapping[str, Tensor]
) -> Iterator[str]:
    """
    :param layers: of a network in search
    :param samples: of data sets, by name
    :param templates: of their data, by key
    :return: a line for each loop whose limit is less than the length of targets
    """
    for found in layers:
        key = None if found.loop is None else _target_of_search(found.loop)
        limit = getattr(found.layer, "max_seq_len", None)
        if key is None or not isinstance(limit, (int, str)):
            continue
        longer = [_longer(found.layer, limit, key, sample, templates) for sample in samples.values()]
        of_data = [item for item in zip(samples, samples.values(), longer, strict=True) if item[-1]]
        texts = [f"{len(by)} of {name!r} ({sample})" for name, sample, by in of_data]
        if texts:
            yield (
                f"{found.layer.where()}: option 'max_seq_len': {limit!r}: targets {key!r} that are longer:"
                f" {', '.join(texts)}, the longest by {max(map(max, filter(None, longer)))}. A search cannot find them."
            )


def _target_of_search(loop: CompiledLoop) -> str | None:
    """:return: key of what the loop searches for, if it ends by the label that it found"""
    layers = loop.inferred.layers.values()
    choices = [layer for layer in layers if isinstance(layer, ChoiceLayer) and layer.search and layer.targets]
    network = loop.inputs.layer.network
    is_known = loop.inputs.has_known_length or network.get_config().options.search_depends_on_batch
    return None if is_known or len(choices) != 1 or network.parent_net is not None else choices[0].targets[0]


def _longer(
    layer: LayerBase, limit: int | str, key: str, sample: DataSample, templates: Mapping[str, Tensor]
) -> list[int]:
    """:return: of targets that are longer than the limit, by how much"""
    lengths_of = {dim: lengths for _, dim, lengths in sample.lengths(templates)}
    time_dim = templates[key].get_time_dim_tag() if key in templates and templates[key].have_time_axis() else None
    lengths = lengths_of.get(time_dim)
    limits = _limits(layer, limit, lengths_of) if isinstance(limit, str) else limit
    if lengths is None or limits is None:
        return []
    return [int(number) for number in lengths - limits if number > 0]


def _limits(layer: LayerBase, expression: str, lengths_of: Mapping[Dim, Array]) -> Any:
    """:return: of each sequence, or one for all; None if the expression depends on more than lengths of the data"""
    nodes = list(ast.walk(ast.parse(expression.strip(), mode="eval")))
    if any(isinstance(node, ast.Name) and node.id == "self" for node in nodes):
        return None
    lengths = {name: _lengths_from(layer, name, lengths_of) for name in layers_in_limit(nodes)}
    if any(values is None for values in lengths.values()):
        return None
    with tf.Graph().as_default(), tf1.Session(config=tf1.ConfigProto(device_count={"GPU": 0})) as session:
        constants = {name: tf.constant(values, "int32") for name, values in lengths.items()}
        try:
            limits = eval(expression, {"max_len_from": constants.__getitem__, "tf": tf})
            return numpy.asarray(session.run(tf.convert_to_tensor(limits)))
        except (TypeError, ValueError, AttributeError, LookupError, tf.errors.OpError):
            return None  # a run says so


def _lengths_from(layer: LayerBase, name: str, lengths_of: Mapping[Dim, Array]) -> Array | None:
    output = layer_of_limit(layer, name).output
    return evaluated_lengths(output.get_time_dim_tag(), lengths_of) if output.have_time_axis() else None
