"""
Gradients of the objective by the parameters, and of losses that come about only when these are computed.

Such meta losses are on the gradients themselves, see `returnn.tf.util.losses.meta_losses`.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from returnn.tf.util.gradient_checkpoint import prepare_gradient_checkpointing
from returnn.tf.util.losses.meta_losses import LossInfo, MetaLosses, Scope, probes_of

Gradient = tf.Tensor | tf.IndexedSlices | None


def gradients_of_objective(
    loss: tf.Tensor, variables: Sequence[tf.Variable], factors: Sequence[float]
) -> tuple[list[Gradient], list[LossInfo]]:
    """
    :param loss: scalar
    :param variables: to differentiate by
    :param factors: for each of them: compute its gradient from the loss times this, and divide by it again. Not with
        meta losses
    :return: for each of them, its gradient, with that of the meta losses; the meta losses
    """
    grads: list[Gradient] = [None] * len(variables)
    scope = Scope()
    for factor in dict.fromkeys(factors):
        indices = [i for i, other in enumerate(factors) if other == factor]
        found, scope = _gradients(loss if factor == 1.0 else factor * loss, [variables[i] for i in indices])
        for i, grad in zip(indices, found, strict=True):
            grads[i] = grad if factor == 1.0 or grad is None else _scaled(grad, 1.0 / factor)
    if scope.losses and set(factors) != {1.0}:  # a predicted gradient is not a multiple, if the loss is one
        grads, scope = _gradients(loss, variables)
    if not scope.losses:
        return grads, []
    MetaLosses.enter_gradient_scope(is_of_losses=True)
    try:
        of_meta_losses = tf.gradients(scope.summed_loss_for_optimization(), variables)
    finally:
        MetaLosses.exit_gradient_scope()
    return [_sum(*pair) for pair in zip(grads, of_meta_losses, strict=True)], scope.losses


def _gradients(loss: tf.Tensor, variables: Sequence[tf.Variable]) -> tuple[list[Gradient], Scope]:
    prepare_gradient_checkpointing()
    probes = probes_of(loss.graph)
    scope = MetaLosses.enter_gradient_scope()
    try:
        grads = tf.gradients(loss, [*variables, *(probe.zeros for probe in probes)])
    finally:
        MetaLosses.exit_gradient_scope()
    scope.take_from_probes(probes, grads[len(variables) :])
    return grads[: len(variables)], scope


def _sum(a: Gradient, b: Gradient) -> Gradient:
    if a is None or b is None:
        return b if a is None else a
    return tf.convert_to_tensor(a) + tf.convert_to_tensor(b)


def _scaled(grad: tf.Tensor | tf.IndexedSlices, factor: float) -> tf.Tensor | tf.IndexedSlices:
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(factor * grad.values, grad.indices, grad.dense_shape)
    return factor * grad
