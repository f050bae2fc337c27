"""Adam and what is close to it, with the option names and the results of Keras 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from returnn.tf.optimizers.base import Number, norm
from returnn.tf.optimizers.keras_options import KerasOptimizer


class KerasMoments(KerasOptimizer):
    """Keeps the running means `m` of the gradients and `v` of their squares. A subclass sets the three numbers."""

    beta_1: float
    beta_2: float
    epsilon: float

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "m")
        self._slot(var, "v")

    def _power(self, option: str, var: tf.Variable) -> tf.Tensor:
        """:return: the option to the power of the number of the step"""
        return self._once(f"{option}^t", var, lambda: tf.pow(self._tensor(option, var), self._step_as(var)))

    def _bias(self, option: str, var: tf.Variable) -> tf.Tensor:
        """:return: what the running mean of ones would be, as it starts with 0"""
        return self._once(f"1 - {option}^t", var, lambda: 1.0 - self._power(option, var))

    def _update_moments(self, grad: tf.Tensor, var: tf.Variable) -> tuple[tf.Tensor, tf.Tensor, list[tf.Operation]]:
        """:return: new m, new v, and the ops that store them"""
        m, v = self._slot(var, "m"), self._slot(var, "v")
        new_m = self._running_mean(m.read_value(), grad, "beta_1", var)
        new_v = self._running_mean(v.read_value(), tf.square(grad), "beta_2", var)
        return new_m, new_v, [m.assign(new_m, read_value=False), v.assign(new_v, read_value=False)]

    def _apply_adam(
        self, kernel: Callable[..., tf.Operation], grad: tf.Tensor, var: tf.Variable, **more
    ) -> tf.Operation:
        """:param more: arguments of the kernel beside those that all of them have"""
        return kernel(
            var=var.handle,
            m=self._slot(var, "m").handle,
            v=self._slot(var, "v").handle,
            beta1_power=self._power("beta_1", var),
            beta1=self._tensor("beta_1", var),
            beta2=self._tensor("beta_2", var),
            epsilon=self._tensor("epsilon", var),
            grad=grad,
            use_locking=self.use_locking,
            **{"lr": self._tensor("learning_rate", var), **more},
        )


class _KerasAdam(KerasMoments):
    """The options of most of them."""

    def __init__(
        self,
        learning_rate: Number = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-07,
        **kwargs,
    ):
        """
        :param beta_1: share of the former value in the running mean of the gradients
        :param beta_2: share of the former value in the running mean of the squared gradients
        :param epsilon: added to the denominator
        """
        super().__init__(learning_rate, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon


class AdamW(_KerasAdam):
    """
    Adam with decoupled weight decay: `var -= learning_rate * weight_decay * var` beside the step of Adam.

    Loshchilov and Hutter (2019), "Decoupled Weight Decay Regularization".
    """

    optimizer_names = ("adamw",)

    def __init__(
        self,
        learning_rate: Number = 0.001,
        weight_decay: float | None = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-07,
        amsgrad: bool = False,
        **kwargs,
    ):
        """:param amsgrad: divide by the largest `v` so far, so that step sizes never grow (Reddi et al. 2018)"""
        super().__init__(learning_rate, beta_1, beta_2, epsilon, weight_decay=weight_decay, **kwargs)
        self.amsgrad = amsgrad

    def _create_slots(self, var: tf.Variable) -> None:
        super()._create_slots(var)
        if self.amsgrad:
            self._slot(var, "v_hat")

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        power = self._power("beta_2", var)
        if self.amsgrad:
            v_hat = self._slot(var, "v_hat").handle
            return self._apply_adam(tf.raw_ops.ResourceApplyAdamWithAmsgrad, grad, var, beta2_power=power, vhat=v_hat)
        return self._apply_adam(tf.raw_ops.ResourceApplyAdam, grad, var, beta2_power=power)


class Adamax(_KerasAdam):
    """
    Adam with the infinity norm.

    `v = max(beta_2 * v, |grad|); var -= learning_rate / (1 - beta_1^t) * m / (v + epsilon)`.

    Kingma and Ba (2015), "Adam: A Method for Stochastic Optimization", section 7.1.
    """

    optimizer_names = ("adamax",)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return self._apply_adam(tf.raw_ops.ResourceApplyAdaMax, grad, var)


class Nadam(_KerasAdam):
    """
    Adam with Nesterov momentum and the schedule of the momentum `beta_1 * (1 - 0.5 * 0.96^t)`.

    Dozat (2016), "Incorporating Nesterov Momentum into Adam".
    """

    optimizer_names = ("nadamkeras",)

    def create_slots(self, variables: Sequence[tf.Variable]) -> None:
        super().create_slots(variables)
        dtype = tf.float64 if any(var.dtype.base_dtype == tf.float64 for var in variables) else tf.float32
        self._shared_variable("u_product", initial=1.0, dtype=dtype)

    def _prepare(self) -> None:
        product = self._shared_variables["u_product"]
        step = tf.cast(self.step, product.dtype)
        self.u = self.beta_1 * (1.0 - 0.5 * tf.pow(tf.constant(0.96, step.dtype), step))
        self.next_u = self.beta_1 * (1.0 - 0.5 * tf.pow(tf.constant(0.96, step.dtype), step + 1))
        self.u_product = product.read_value() * self.u
        self.m_factor = self.next_u / (1.0 - self.u_product * self.next_u)
        self.grad_factor = (1.0 - self.u) / (1.0 - self.u_product)

    def _finish(self) -> list[tf.Operation]:
        return [self._shared_variables["u_product"].assign(self.u_product, read_value=False)]

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        new_m, new_v, stores = self._update_moments(grad, var)
        mean = self._tensor("m_factor", var) * new_m + self._tensor("grad_factor", var) * grad
        root = tf.sqrt(new_v / self._bias("beta_2", var))
        step = self._tensor("learning_rate", var) * mean / (root + self._tensor("epsilon", var))
        return tf.group(*stores, var.assign_sub(step, self.use_locking, read_value=False))


class Lamb(_KerasAdam):
    """
    The step of Adam, scaled to the norm of the variable, for large batches.

    You et al. (2020), "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes".
    """

    optimizer_names = ("lamb",)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        new_m, new_v, stores = self._update_moments(grad, var)
        root = tf.sqrt(new_v / self._bias("beta_2", var))
        step = new_m / self._bias("beta_1", var) / (root + self._tensor("epsilon", var))
        weight_norm, step_norm = norm(var.read_value()), norm(step)
        is_scaled = tf.logical_and(weight_norm > 0, step_norm > 0)
        ratio = tf.where(is_scaled, tf.math.divide_no_nan(weight_norm, step_norm), tf.ones_like(step_norm))
        step *= ratio * self._tensor("learning_rate", var)
        return tf.group(*stores, var.assign_sub(step, self.use_locking, read_value=False))


class ScheduleFreeAdamW(_KerasAdam):
    """
    Adam on a sequence `z`, whose mean `x` takes the place of a learning rate schedule; gradients are taken in between,
    at `var = (1 - beta_1) * z + beta_1 * x`.

    Defazio et al. (2024), "The Road Less Scheduled".
    """

    optimizer_names = ("schedulefreeadamw",)

    def __init__(
        self,
        learning_rate: Number = 0.0025,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-08,
        warmup_steps: int = 0,
        **kwargs,
    ):
        """
        :param beta_1: share of the mean in the point where gradients are taken
        :param warmup_steps: number of steps over which the learning rate grows to its value
        """
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **kwargs)
        self.warmup_steps = warmup_steps

    def _prepare(self) -> None:
        self.rate = self.learning_rate
        if self.warmup_steps > 0:
            self.rate *= tf.minimum(tf.cast(self.step, tf.float32) / self.warmup_steps, 1.0)

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "z")
        self._slot(var, "v")

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        z, v = self._slot(var, "z"), self._slot(var, "v")
        beta = self._tensor("beta_1", var)
        y = var.read_value()
        old_z = tf.where(tf.equal(self.step, 1), y, z.read_value())
        new_v = self._running_mean(v.read_value(), tf.square(grad), "beta_2", var)
        root = tf.sqrt(new_v / self._bias("beta_2", var)) + self._tensor("epsilon", var)
        new_z = old_z - self._tensor("rate", var) * grad / root
        old_x = (y - self._rest("beta_1", var) * old_z) / beta
        new_x = old_x + (new_z - old_x) / self._step_as(var)
        return tf.group(
            z.assign(new_z, read_value=False),
            v.assign(new_v, read_value=False),
            var.assign(self._rest("beta_1", var) * new_z + beta * new_x, self.use_locking, read_value=False),
        )
