"""
Losses on gradients. They come about while the gradients are computed, and are part of the objective, too.

Whoever computes gradients does it in a scope, and then adds the gradients of what was registered in there:

    scope = MetaLosses.enter_gradient_scope()
    gradients = optimizer.compute_gradients(loss)
    MetaLosses.exit_gradient_scope()
    extra = scope.summed_loss_for_optimization()

In a loop or condition, a loss is not known where it comes about. There, the value of the layer also depends on a
probe, a zero outside of all loops: its gradient, which is summed up over all frames, is the loss. So whoever computes
gradients computes those of the probes as well:

    *gradients, of_probes = tf.gradients(loss, [*variables, *probes])
    scope.take_from_probes(of_probes)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tensorflow as tf

from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.util.errors import ConfigError

_PROBES = "_returnn_meta_loss_probes"  # attribute of a graph


@dataclass(frozen=True)
class LossInfo:
    """A loss on a gradient."""

    value: tf.Tensor  # scalar, mean over the batch
    scale: tf.Tensor | float
    norm_factor: tf.Tensor | float
    name: str
    source: Any  # the layer

    def scaled(self) -> tf.Tensor:
        """:return: raw scalar, the part of the objective"""
        return self.value * self.scale * self.norm_factor


@dataclass(frozen=True)
class Probe:
    """Collects a loss in a loop or condition: its gradient is the sum of that, and of the weights of its entries."""

    zeros: tf.Tensor  # (2,), in the outermost graph
    scale: tf.Tensor | float
    name: str
    source: Any  # the layer


def probes_of(graph: tf.Graph) -> list[Probe]:
    """:return: the probes that were made in this graph, and in loops and conditions in it"""
    return list(getattr(graph, _PROBES, ()))


@dataclass
class Scope:
    """The losses that came about in one computation of gradients."""

    losses: list[LossInfo] = field(default_factory=list)
    is_of_losses: bool = False  # what is differentiated are such losses themselves. Then layers are as they look

    def take_from_probes(self, probes: Sequence[Probe], gradients: Sequence[tf.Tensor | None]) -> None:
        """
        Adds the losses in loops and conditions.

        :param probes: of the graph
        :param gradients: (2,) each, of the objective by them
        """
        for probe, gradient in zip(probes, gradients, strict=True):
            if gradient is not None:
                mean = tf.math.divide_no_nan(gradient[0], tf.stop_gradient(gradient[1]))
                self.register_loss(LossInfo(mean, probe.scale, 1.0, probe.name, probe.source))

    def register_loss(self, loss: LossInfo) -> None:
        """Adds a loss."""
        self.losses.append(loss)

    def summed_loss_for_optimization(self) -> tf.Tensor:
        """:return: raw scalar: sum of all, scaled; 0 if there are none"""
        return tf.add_n([loss.scaled() for loss in self.losses]) if self.losses else tf.zeros(())


class MetaLosses:
    """Losses on gradients. See the head of this module."""

    LossInfo = LossInfo
    Scope = Scope

    class ScopeCtxThreadLocal(threading.local):
        """The scope of each thread."""

        scope: Scope | None = None

    scope_ctx: ClassVar[ScopeCtxThreadLocal] = ScopeCtxThreadLocal()

    @classmethod
    def enter_gradient_scope(cls, *, is_of_losses: bool = False) -> Scope:
        """
        :param is_of_losses: see `Scope`
        :return: scope which gets all losses, until `exit_gradient_scope`
        """
        assert cls.scope_ctx.scope is None, "a gradient scope within another one"
        cls.scope_ctx.scope = Scope(is_of_losses=is_of_losses)
        return cls.scope_ctx.scope

    @classmethod
    def exit_gradient_scope(cls) -> None:
        """Ends the scope."""
        assert cls.scope_ctx.scope is not None, "there is no gradient scope"
        cls.scope_ctx.scope = None

    @classmethod
    def synthetic_gradient(
        cls,
        x: tf.Tensor,
        synthetic_grad_x: tf.Tensor,
        loss_scale: tf.Tensor | float = 1.0,
        loss_name: str | None = None,
        loss_source: Any = None,
        weights: tf.Tensor | None = None,
        only_valid: bool = False,
    ) -> tf.Tensor:
        """
        :param x: (...)
        :param synthetic_grad_x: (...), prediction of the gradient of x
        :param loss_scale: scale of the loss, the mean of the squared difference to the real gradient
        :param loss_name: for people
        :param loss_source: the layer
        :param weights: (...), 0 for the entries of x that do not count in the loss, otherwise 1
        :param only_valid: the gradient of entries that do not count is 0
        :return: x; its gradient is the prediction
        """

        is_in_condition_of_loop = _is_in_condition_of_loop()

        def gradient_of(real: tf.Tensor, prediction: tf.Tensor) -> tuple[tf.Tensor, None, tf.Tensor]:
            if cls.scope_ctx.scope is not None and is_in_condition_of_loop:
                # What TensorFlow derives there has no gradient by the branch of the condition.
                where = loss_name if loss_source is None else loss_source.where()
                raise ConfigError(
                    f"{where}: a predicted gradient cannot be trained in a condition inside of a loop.\n"
                    "  Move the layer behind the 'cond', or the 'cond' out of the loop."
                )
            difference = tf.math.squared_difference(prediction, tf.stop_gradient(real))
            replaced = tf.where(weights > 0, prediction, 0) if only_valid and weights is not None else prediction
            return tf.stop_gradient(replaced), None, difference

        name = loss_name or "synthetic_gradient"
        return cls._identity_with_loss(x, synthetic_grad_x, gradient_of, weights, loss_scale, name, loss_source)

    @classmethod
    def tikhonov_regularized(
        cls,
        x: tf.Tensor,
        dummy: tf.Tensor,
        loss_scale: tf.Tensor | float = 1.0,
        loss_name: str | None = None,
        loss_source: Any = None,
        weights: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """
        :param x: (...)
        :param dummy: scalar parameter: it makes sure that there is a gradient, even if nothing is trained below x
        :param loss_scale: scale of the loss, the mean of the squared gradient
        :param loss_name: for people
        :param loss_source: the layer
        :param weights: (...), 0 for the entries of x that do not count, otherwise 1
        :return: x
        """

        def gradient_of(real: tf.Tensor, dummy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            return real, tf.zeros_like(dummy), tf.square(real)

        name = loss_name or "tikhonov"
        return cls._identity_with_loss(x, dummy, gradient_of, weights, loss_scale, name, loss_source)

    @classmethod
    def _identity_with_loss(
        cls,
        x: tf.Tensor,
        other: tf.Tensor,
        gradient_of: Callable[[tf.Tensor, tf.Tensor], tuple[Any, Any, tf.Tensor]],
        weights: tf.Tensor | None,
        scale: tf.Tensor | float,
        name: str,
        source: Any,
    ) -> tf.Tensor:
        """
        :param x: (...)
        :param other: what the loss depends on, too
        :param gradient_of: function from the gradient of the output and `other` to those of x and `other`, and the loss
            of each entry
        :return: x
        """
        is_inside = tf.compat.v1.get_default_graph().building_function
        probe = _new_probe(x.dtype, scale, name, source) if is_inside else tf.zeros([2], x.dtype)

        @tf.custom_gradient
        def identity(x: tf.Tensor, other: tf.Tensor, probe: tf.Tensor) -> Any:
            def gradient(real: tf.Tensor) -> Any:
                scope = cls.scope_ctx.scope
                if scope is not None and scope.is_of_losses:
                    return real, None, None
                of_x, of_other, losses = gradient_of(real, other)
                if scope is None:
                    return of_x, of_other, None
                counts = tf.ones_like(losses) if weights is None else weights
                total, number = tf.reduce_sum(losses * counts), tf.reduce_sum(counts)
                if is_inside:
                    return of_x, of_other, tf.stack([total, number])
                scope.register_loss(LossInfo(tf.math.divide_no_nan(total, number), scale, 1.0, name, source))
                return of_x, of_other, None

            return tf.identity(x), gradient

        return identity(x, other, probe)


def _is_in_condition_of_loop() -> bool:
    kinds, graph = [], tf.compat.v1.get_default_graph()
    while graph is not None:
        kinds.append(type(graph).__name__)
        graph = getattr(graph, "outer_graph", None)
    return "CondBranchFuncGraph" in kinds and "WhileBodyFuncGraph" in kinds[kinds.index("CondBranchFuncGraph") :]


def _new_probe(dtype: tf.DType, scale: tf.Tensor | float, name: str, source: Any) -> tf.Tensor:
    """:return: (2,), in the outermost graph"""
    with outermost_graph() as graph:
        probe = Probe(tf.zeros([2], dtype), scale, name, source)
    setattr(graph, _PROBES, [*probes_of(graph), probe])
    return probe.zeros
