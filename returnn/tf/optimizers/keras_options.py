"""
Base of the optimizers that have the option names of Keras 3 (`beta_1`, `weight_decay`, `use_ema`, ...).

They give the same results as the optimizers of Keras, which hold variables of their own kind and cannot update those
of a graph. In each step, in this order: gradients are collected (`gradient_accumulation_steps`) and clipped, weights
decay, variables are updated, their running average is updated (`use_ema`).
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from returnn.tf.optimizers.accumulate import add_to_accumulator, apply_every
from returnn.tf.optimizers.base import Gradient, GradsAndVars, Number, Optimizer, check_range, merge_repeated_rows
from returnn.tf.optimizers.clip import clip_by_global_norm, values_of, with_values
from returnn.util.errors import ConfigError


class KerasOptimizer(Optimizer):
    """The options that all optimizers of Keras have. See the module."""

    def __init__(
        self,
        learning_rate: Number = 0.001,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        use_locking: bool = False,
    ):
        """
        :param weight_decay: `var -= learning_rate * weight_decay * var` before each update
        :param clipnorm: largest L2 norm of the gradient of each variable
        :param clipvalue: largest absolute value of each entry of a gradient
        :param global_clipnorm: largest L2 norm of all gradients together
        :param use_ema: keep a running average of the variables, in the slot `average`
        :param ema_momentum: share of the former average in the next one
        :param ema_overwrite_frequency: set the variables to their average whenever so many updates are done
        :param loss_scale_factor: the loss is multiplied by it, and its gradients are divided again, so that small
            ones do not vanish in half precision. Who computes the gradients has to do both
        :param gradient_accumulation_steps: update once in so many steps, with the mean of their gradients
        """
        super().__init__(learning_rate, use_locking, name)
        self.weight_decay = weight_decay
        self.clipnorm = clipnorm
        self.clipvalue = clipvalue
        self.global_clipnorm = global_clipnorm
        self.use_ema = use_ema
        self.ema_momentum = ema_momentum
        self.ema_overwrite_frequency = ema_overwrite_frequency
        self.loss_scale_factor = loss_scale_factor
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self._check_options()

    def _check_options(self) -> None:
        check_range(self.name, "ema_momentum", self.ema_momentum, at_least=0.0, at_most=1.0)
        if self.ema_overwrite_frequency is not None:
            check_range(self.name, "ema_overwrite_frequency", self.ema_overwrite_frequency, at_least=1)
        if self.gradient_accumulation_steps is not None:
            check_range(self.name, "gradient_accumulation_steps", self.gradient_accumulation_steps, at_least=2)
        clips = [name for name in ("clipnorm", "clipvalue", "global_clipnorm") if getattr(self, name) is not None]
        if len(clips) > 1:
            raise ConfigError(f"optimizer {self.name!r}: options {' and '.join(map(repr, clips))} exclude each other.")

    def overwrite_with_average(self) -> tf.Operation:
        """:return: op that sets the variables to their running average, for the end of the training"""
        averages = self._slots.get("average", {})
        return tf.group(*(ref.deref().assign(average, read_value=False) for ref, average in averages.items()))

    def create_slots(self, variables: Sequence[tf.Variable]) -> None:
        super().create_slots(variables)
        self._shared_variable("iterations", initial=0, dtype=tf.int64)
        if self.gradient_accumulation_steps:
            self._shared_variable("accumulation_step", initial=0, dtype=tf.int64)
        for var in variables:
            if self.use_ema:
                self._slot(var, "average", name=f"{self.name}_average")
            if self.gradient_accumulation_steps:
                self._slot(var, "accum_grad", name=f"{self.name}_accum_grad")

    def _apply_all(self, pairs: GradsAndVars) -> list[tf.Operation]:
        num_steps = self.gradient_accumulation_steps
        if not num_steps:
            return self._update_all(pairs)
        counter = self._shared_variables["accumulation_step"]
        step = counter.read_value()
        totals = [add_to_accumulator(g, v, self._slot(v, "accum_grad"), step, num_steps) for g, v in pairs]
        means = [(total / num_steps, var) for total, (_, var) in zip(totals, pairs, strict=True)]
        update = apply_every(num_steps, step, lambda: tf.group(*self._update_all(means)), after=totals)
        return [update, counter.assign(step + 1, read_value=False)]

    def _update_all(self, pairs: GradsAndVars) -> list[tf.Operation]:
        self._tensors.clear()
        iterations = self._shared_variables["iterations"].read_value()
        self.step = iterations + 1
        self._prepare()
        updates = [self._update(grad, var) for grad, var in self._clip(pairs)]
        with tf.control_dependencies(updates):
            return [*updates, *self._finish(), self._shared_variables["iterations"].assign(self.step, read_value=False)]

    def _clip(self, pairs: GradsAndVars) -> GradsAndVars:
        if not (self.clipnorm or self.clipvalue or self.global_clipnorm):
            return pairs
        pairs = [(merge_repeated_rows(g) if isinstance(g, tf.IndexedSlices) else g, var) for g, var in pairs]
        if self.global_clipnorm:
            return clip_by_global_norm(pairs, self.global_clipnorm)
        if self.clipnorm:
            return [(with_values(g, tf.clip_by_norm(values_of(g), self.clipnorm)), var) for g, var in pairs]
        limit = self.clipvalue
        return [(with_values(g, tf.clip_by_value(values_of(g), -limit, limit)), var) for g, var in pairs]

    def _update(self, grad: Gradient, var: tf.Variable) -> tf.Operation:
        with tf.control_dependencies(self._decay(var)):
            update = self._apply(grad, var)
        if not self.use_ema:
            return update
        with tf.control_dependencies([update]):
            return self._average(var)

    def _weight_decay_of(self, var: tf.Variable) -> float | None:
        return self.weight_decay

    def _decay(self, var: tf.Variable) -> list[tf.Operation]:
        weight_decay = self._weight_decay_of(var)
        if not weight_decay:
            return []
        factor = self._tensor("learning_rate", var) * tf.constant(weight_decay, var.dtype.base_dtype)
        return [var.assign_sub(factor * var.read_value(), self.use_locking, read_value=False)]

    def _average(self, var: tf.Variable) -> tf.Operation:
        average = self._slot(var, "average")
        value = var.read_value()
        momentum = tf.where(tf.equal(self.step, 1), tf.zeros((), value.dtype), self._tensor("ema_momentum", var))
        new_average = momentum * average.read_value() + (1 - momentum) * value
        updates = [average.assign(new_average, read_value=False)]
        if self.ema_overwrite_frequency:
            is_due = tf.equal(self.step % self.ema_overwrite_frequency, 0)
            updates.append(var.assign(tf.where(is_due, new_average, value), read_value=False))
        return tf.group(*updates)

    def _step_as(self, var: tf.Variable) -> tf.Tensor:
        """:return: number of this update, from 1, in the dtype of the variable"""
        return self._tensor("step", var)
