"""
Scaled losses, for gradients in float16: small ones would be rounded to 0 (Micikevicius et al. 2018).

The scale grows as long as gradients are finite. Where they are not, the step is left out, and the scale shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from returnn.config import Config
from returnn.config.option_types import options_as
from returnn.engine.run.mixed_precision import amp_dtype
from returnn.tf.optimizers.base import Gradient
from returnn.tf.optimizers.clip import values_of, with_values
from returnn.tf.updater import gradient_steps
from returnn.tf.updater.gradient_steps import VariableGradient
from returnn.util.errors import ConfigError


@dataclass(frozen=True)
class LossScaleOptions:
    """Option `grad_scaler`, with the names and defaults of `torch.amp.GradScaler`."""

    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000  # steps with finite gradients, after which the scale grows

    def __post_init__(self) -> None:
        if not (self.init_scale > 0 and self.growth_factor > 1 > self.backoff_factor > 0 and self.growth_interval > 0):
            raise ConfigError(
                f"option 'grad_scaler': {self}.\n"
                "  The scale and the interval should be above 0, growth_factor above 1, backoff_factor between 0 and 1."
            )

    @classmethod
    def from_config(cls, config: Config) -> LossScaleOptions | None:
        """:return: None: losses are not scaled"""
        option = config.options.grad_scaler
        if option is None:
            option = amp_dtype(config.options.tf_amp, name="tf_amp") == "float16"
        if isinstance(option, Mapping):
            return options_as(cls, option, where="option 'grad_scaler'")
        return cls() if option else None


class LossScale:
    """The scale of the current step. It is saved with the optimizer."""

    def __init__(self, options: LossScaleOptions) -> None:
        """:param options: how it changes"""
        self._options = options
        self._variable = _new_variable("loss_scale", options.init_scale, tf.float32)
        self._num_finite = _new_variable("loss_scale_num_finite", 0, tf.int64)  # steps since it changed
        self._scale = self._variable.read_value()
        self._is_finite = tf.constant(True)

    @property
    def variables(self) -> list[tf.Variable]:
        """What is to be saved."""
        return [self._variable, self._num_finite]

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """:return: the loss to differentiate"""
        return loss * tf.cast(self._scale, loss.dtype)

    def unscaled(self, grad: Gradient) -> Gradient:
        """:return: gradient of the loss itself"""
        values = values_of(grad)
        return with_values(grad, values / tf.cast(self._scale, values.dtype))

    def look_at(self, items: Sequence[VariableGradient]) -> None:
        """:param items: all gradients of the step: the step counts if they are finite"""
        self._is_finite = tf.math.is_finite(gradient_steps.norm_of(items))

    def can_shrink(self) -> tf.Tensor:
        """:return: bool scalar: gradients may be infinite because of the scale, not only by themselves"""
        return self._scale >= 1.0

    def zero_if_not_finite(self, items: Sequence[VariableGradient]) -> list[VariableGradient]:
        """:return: gradients which can be summed up with those of other steps"""
        values = [values_of(item.grad) for item in items]
        zeros = [tf.where(self._is_finite, value, tf.zeros_like(value)) for value in values]
        return [replace(item, grad=with_values(item.grad, zero)) for item, zero in zip(items, zeros, strict=True)]

    def apply_if_finite(self, apply: Callable[[], tf.Operation]) -> tf.Operation:
        """:param apply: makes the op, without new variables"""

        def apply_now() -> tf.Tensor:
            with tf.control_dependencies([apply()]):
                return tf.constant(True)

        return tf.cond(self._is_finite, apply_now, lambda: tf.constant(False)).op

    def update(self) -> tf.Operation:
        """:return: op that sets the scale of the next step; to run after everything else"""
        num_finite = tf.where(self._is_finite, self._num_finite.read_value() + 1, 0)
        grows = num_finite >= self._options.growth_interval
        factor = tf.where(grows, self._options.growth_factor, 1.0)
        factor = tf.where(self._is_finite, factor, self._options.backoff_factor)
        new_scale = tf.where(tf.math.is_finite(self._scale * factor), self._scale * factor, self._scale)
        return tf.group(
            self._variable.assign(new_scale, read_value=False),
            self._num_finite.assign(tf.where(grows, tf.zeros_like(num_finite), num_finite), read_value=False),
        )


def _new_variable(name: str, value: float, dtype: tf.DType) -> tf.Variable:
    return tf.compat.v1.Variable(value, name=name, trainable=False, dtype=dtype, use_resource=True)
