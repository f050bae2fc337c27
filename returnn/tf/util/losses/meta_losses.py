"""
Losses on gradients. They come about while the gradients are computed, and are part of the objective, too.

Whoever computes gradients does it in a scope, and then adds the gradients of what was registered in there:

    scope = MetaLosses.enter_gradient_scope()
    gradients = optimizer.compute_gradients(loss)
    MetaLosses.exit_gradient_scope()
    extra = scope.summed_loss_for_optimization()
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tensorflow as tf

from returnn.util.errors import ConfigError


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


@dataclass
class Scope:
    """The losses that came about in one computation of gradients."""

    losses: list[LossInfo] = field(default_factory=list)

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
    def enter_gradient_scope(cls) -> Scope:
        """:return: scope which gets all losses, until `exit_gradient_scope`"""
        assert cls.scope_ctx.scope is None, "a gradient scope within another one"
        cls.scope_ctx.scope = Scope()
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
    ) -> tf.Tensor:
        """
        :param x: (...)
        :param synthetic_grad_x: (...), prediction of the gradient of x
        :param loss_scale: scale of the loss, the mean of the squared difference to the real gradient
        :param loss_name: for people
        :param loss_source: the layer
        :return: x; its gradient is the prediction
        """

        def gradient_of(real: tf.Tensor, prediction: tf.Tensor) -> tuple[tf.Tensor, None]:
            difference = tf.math.squared_difference(prediction, tf.stop_gradient(real))
            cls._register(difference, loss_scale, loss_name or "synthetic_gradient", loss_source)
            return tf.stop_gradient(prediction), None

        return _identity_with_gradient(x, synthetic_grad_x, gradient_of)

    @classmethod
    def tikhonov_regularized(
        cls,
        x: tf.Tensor,
        dummy: tf.Tensor,
        loss_scale: tf.Tensor | float = 1.0,
        loss_name: str | None = None,
        loss_source: Any = None,
    ) -> tf.Tensor:
        """
        :param x: (...)
        :param dummy: scalar parameter: it makes sure that there is a gradient, even if nothing is trained below x
        :param loss_scale: scale of the loss, the mean of the squared gradient
        :param loss_name: for people
        :param loss_source: the layer
        :return: x
        """

        def gradient_of(real: tf.Tensor, dummy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            cls._register(tf.square(real), loss_scale, loss_name or "tikhonov", loss_source)
            return real, tf.zeros_like(dummy)

        return _identity_with_gradient(x, dummy, gradient_of)

    @classmethod
    def _register(cls, value: tf.Tensor, scale: tf.Tensor | float, name: str, source: Any) -> None:
        scope = cls.scope_ctx.scope
        if scope is None:
            return
        if tf.compat.v1.get_default_graph().building_function:
            where = name if source is None else source.where()
            raise ConfigError(f"{where}: cannot be trained inside of a loop or condition.")
        scope.register_loss(LossInfo(tf.reduce_mean(value), scale, 1.0, name, source))


def _identity_with_gradient(x: tf.Tensor, other: tf.Tensor, gradient_of: Callable[..., Any]) -> tf.Tensor:
    @tf.custom_gradient
    def identity(x: tf.Tensor, other: tf.Tensor) -> Any:
        def gradient(real: tf.Tensor) -> Any:
            return gradient_of(real, other)

        return tf.identity(x), gradient

    return identity(x, other)
