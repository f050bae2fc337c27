"""
Gradients that are not finite: the update is not done, and the parameter where they begin is found.

The check is one number, the norm of all gradients, which `gradient_clip_global_norm` needs anyway. So an entry above
about 1e19, whose square is infinite in single precision, counts as infinite. Gradients that options make finite
afterwards pass: infinities with `gradient_clip`, anything with `grad_norm_to_clip_to_zero`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from returnn.tf.updater import gradient_steps
from returnn.tf.updater.gradient_steps import VariableGradient
from returnn.tf.updater.network_protocol import TrainedLayer
from returnn.util.texts.counted import counted

NON_FINITE_GRADIENT = "gradient is not finite"


def checks_of_gradients(items: Sequence[VariableGradient], *, unless: tf.Tensor | None = None) -> list[tf.Operation]:
    """
    :param items: as they go into `process_gradients`
    :param unless: bool scalar, whether any gradient will do
    :return: operations that fail, with `NON_FINITE_GRADIENT` in the message, if some gradient is not finite
    """
    items = _checked(items)
    if not items:
        return []
    norm = gradient_steps.norm_of(items)
    if unless is not None:
        norm = tf.where(unless, tf.zeros_like(norm), norm)
    return [tf.debugging.check_numerics(norm, NON_FINITE_GRADIENT).op]


@dataclass(frozen=True)
class NonFiniteGradients:
    """What to say about the gradients of a step."""

    parameter: str  # of the last layer, in the order in which they were made: the gradient comes from there
    layer: str
    num_parameters: int  # that have such a gradient
    num_all: int

    def __str__(self) -> str:
        return (
            f"That of the parameter {self.parameter!r} of layer {self.layer!r} is the nearest to the losses;"
            f" {self.num_parameters} of {counted(self.num_all, 'parameter')} have one."
        )


def find_non_finite_gradients(
    items: Sequence[VariableGradient],
    layers: Iterable[TrainedLayer],
    session: tf.compat.v1.Session,
    feed: Mapping[tf.Tensor, object],
) -> NonFiniteGradients | None:
    """
    Computes the gradients of a step again.

    :param items: as in `checks_of_gradients`
    :param layers: of the network, in the order in which they were made
    :param session: with the parameters as they were before the step
    :param feed: of the step
    :return: None if all are finite now
    """
    items = _checked(items)
    with session.graph.as_default():
        is_finite = [tf.math.is_finite(gradient_steps.norm_of([item])) for item in items]
    flags = session.run(is_finite, feed)
    wrong = [item.var for item, flag in zip(items, flags, strict=True) if not flag]
    if not wrong:
        return None
    layer_names = layer_of_each_variable(layers)
    positions = {ref: position for position, ref in enumerate(layer_names)}
    nearest = max(wrong, key=lambda var: positions.get(var.ref(), -1))
    return NonFiniteGradients(nearest.op.name, layer_names.get(nearest.ref(), "?"), len(wrong), len(items))


def layer_of_each_variable(layers: Iterable[TrainedLayer]) -> dict[object, str]:
    """
    :param layers: those of a subnetwork may come together with it; then the layer with the fewest parameters counts
    :return: name of the layer by `ref()` of the variable, in the order of the layers
    """
    found: dict[object, TrainedLayer] = {}
    for layer in layers:
        for var in layer.params.values():
            known = found.setdefault(var.ref(), layer)
            if len(layer.params) < len(known.params):
                found[var.ref()] = layer
    return {ref: layer.get_absolute_name() for ref, layer in found.items()}


def _checked(items: Sequence[VariableGradient]) -> list[VariableGradient]:
    return [gradient_steps.clip_values(item) for item in items if not item.options.gradient.grad_norm_to_clip_to_zero]
