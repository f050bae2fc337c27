"""The option `input_type` of layers that read scores of labels: whether the source has such numbers."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from returnn.tf.layers.core.copy import CopyLayer
from returnn.tf.layers.core.layer_base import LayerBase, WrappedInternalLayer
from returnn.tf.layers.elementwise.activation import ActivationLayer
from returnn.tf.layers.elementwise.combine import CombineLayer
from returnn.tf.layers.linear.linear import LinearLayer
from returnn.tf.layers.options.score_expressions import LOG_FUNCTIONS, kind_of_expression

_NAMES = {"prob": "probabilities", "log_prob": "log probabilities", "logits": "logits"}


def input_type_warning(layer: LayerBase, input_type: str, possible: Sequence[str]) -> str | None:
    """
    :param layer: what reads its sources as the option says
    :param input_type: the option
    :param possible: its values
    :return: a warning, if a source has other numbers. Nothing fails then, the results are worse
    """
    found = (wrong_input_type(source, input_type, possible) for source in layer.sources)
    return next((f"{layer.where()}: {text}" for text in found if text), None)


def wrong_input_type(source: LayerBase, input_type: str, possible: Sequence[str]) -> str | None:
    """:return: that the source has other numbers than the option says, if that is known. See `input_type_warning`"""
    found = kind_of_scores(source)
    if found is None or found == input_type or (input_type, found) == ("logits", "log_prob"):  # softmax keeps these
        return None
    what_to_do = f"Give {found!r}" if found in possible else f"Possible: {', '.join(map(repr, possible))}"
    return (
        f"option 'input_type' is {input_type!r}, but {source.name!r} has {_NAMES[found]}, as {_reason(source)}."
        f" {what_to_do}."
    )


def kind_of_scores(layer: LayerBase) -> str | None:
    """:return: "prob", "log_prob" or "logits" (any numbers), as far as it can be told; None if it cannot"""
    layer = _origin(layer)
    if isinstance(layer, ActivationLayer) and _is_log(layer):
        return "log_prob" if all(kind_of_scores(source) == "prob" for source in layer.sources) else None
    act = layer.output_before_activation
    if act is None:
        if isinstance(layer, CombineLayer):
            return _kind_of_combination(layer)
        return "logits" if isinstance(layer, LinearLayer) and not layer.activation else None
    if act.is_softmax_act_func():
        return "prob"
    if act.is_log_softmax_act_func():
        return "log_prob"
    return "logits" if act.name == "tanh" else None


def _is_log(layer: LayerBase) -> bool:
    act = layer.output_before_activation
    return act is not None and act.name in LOG_FUNCTIONS


def _kind_of_combination(layer: CombineLayer) -> str | None:
    """:return: "log_prob", if these are a term of a sum; None otherwise, as nothing is known then"""
    if layer.with_bias:
        return None
    if isinstance(layer.eval, str):
        kinds = functools.cache(lambda index: kind_of_scores(layer.sources[index]))
        kind = kind_of_expression(layer.eval, kinds, num_sources=len(layer.sources), names=layer.eval_locals)
    else:
        kind = "log_prob" if layer.kind == "add" and "log_prob" in map(kind_of_scores, layer.sources) else None
    return kind if kind == "log_prob" else None


def _origin(layer: LayerBase) -> LayerBase:
    """:return: the layer that has the same output, if this one only hands it on"""
    while True:
        if isinstance(layer, WrappedInternalLayer):
            layer = layer.base_layer
        elif isinstance(layer, CopyLayer) and len(layer.sources) == 1 and not layer.dropout and layer.mask is None:
            layer = layer.sources[0]
        else:
            return layer


def _reason(layer: LayerBase) -> str:
    layer = _origin(layer)
    act = layer.output_before_activation
    if isinstance(layer, ActivationLayer) and _is_log(layer):
        return f"its 'activation' is {act.name!r}, of the probabilities of {layer.sources[0].name!r}"
    if isinstance(layer, CombineLayer) and act is None:
        return "its 'eval' takes the log of probabilities" if layer.kind == "eval" else "it adds log probabilities"
    return f"its 'activation' is {None if act is None else act.name!r}"
