"""The option `input_type` of layers that read scores of labels: whether the source has such numbers."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.tf.layers.core.copy import CopyLayer
from returnn.tf.layers.core.layer_base import LayerBase, WrappedInternalLayer
from returnn.tf.layers.linear.linear import LinearLayer

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
    """:return: "prob", "log_prob" or "logits" (any numbers), as its activation says; None if it does not"""
    layer = _origin(layer)
    act = layer.output_before_activation
    if act is None:
        return "logits" if isinstance(layer, LinearLayer) and not layer.activation else None
    if act.is_softmax_act_func():
        return "prob"
    if act.is_log_softmax_act_func():
        return "log_prob"
    return "logits" if act.name == "tanh" else None


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
    act = _origin(layer).output_before_activation
    return f"its 'activation' is {None if act is None else act.name!r}"
