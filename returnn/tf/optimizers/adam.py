"""
Adam and what is close to it, with the option names of TensorFlow (`beta1`, `beta2`).

Kingma and Ba (2015), "Adam: A Method for Stochastic Optimization". `epsilon` is the "epsilon hat" of that paper,
as in TensorFlow and Keras: the corrections for the bias of the running means are part of the step size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf

from returnn.tf.optimizers.base import Gradient, Number, Optimizer
from returnn.tf.optimizers.gradient_descent import BaseCustomOptimizer


class _AdamMoments(Optimizer):
    """Keeps the running means `m` of the gradients and `v` of their squares, and the powers of both decay factors."""

    beta1: Number
    beta2: Number
    _shared_prefix = ""

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "m")
        self._slot(var, "v")
        self._power(1)
        self._power(2)

    def _power(self, i: int) -> tf.Variable:
        """:return: beta_i to the power of the number of the step, which starts with 1"""
        name = f"{self._shared_prefix}beta{i}_power"
        beta = getattr(self, f"beta{i}")
        return self._shared_variable(name, initial=tf.get_static_value(beta) if tf.is_tensor(beta) else beta)

    def _prepare(self) -> None:
        self.beta1_power = self._power(1).read_value()
        self.beta2_power = self._power(2).read_value()

    def _finish(self) -> list[tf.Operation]:
        return [
            self._power(1).assign(self.beta1_power * self.beta1, self.use_locking, read_value=False),
            self._power(2).assign(self.beta2_power * self.beta2, self.use_locking, read_value=False),
        ]


class AdamOptimizer(_AdamMoments):
    """
    `m = beta1 * m + (1 - beta1) * grad; v = beta2 * v + (1 - beta2) * grad²;
    var -= learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)` in step `t` = 1, 2, ...
    """

    optimizer_names = ("adam", "adamoptimizer")

    _use_nesterov = False

    def __init__(
        self,
        learning_rate: Number = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        use_locking: bool = False,
        name: str = "Adam",
        use_own_namescope_for_non_slot_vars: bool = False,
    ):
        """
        :param beta1: share of the former value in the running mean of the gradients
        :param beta2: share of the former value in the running mean of the squared gradients
        :param epsilon: added to the denominator
        :param use_own_namescope_for_non_slot_vars: call the two powers e.g. `optimize/Adam/beta1_power` instead of
            `optimize/beta1_power`
        """
        super().__init__(learning_rate, use_locking, name)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        if use_own_namescope_for_non_slot_vars:
            self._shared_prefix = f"{self.name}/"

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceApplyAdam(
            var=var.handle,
            m=self._slot(var, "m").handle,
            v=self._slot(var, "v").handle,
            beta1_power=self._tensor("beta1_power", var),
            beta2_power=self._tensor("beta2_power", var),
            lr=self._tensor("learning_rate", var),
            beta1=self._tensor("beta1", var),
            beta2=self._tensor("beta2", var),
            epsilon=self._tensor("epsilon", var),
            grad=grad,
            use_locking=self.use_locking,
            use_nesterov=self._use_nesterov,
        )


class NadamOptimizer(AdamOptimizer):
    """
    Adam with Nesterov momentum: `beta1 * m + (1 - beta1) * grad` in place of `m` in the step.

    Dozat (2016), "Incorporating Nesterov Momentum into Adam", without its schedule of the momentum.
    """

    optimizer_names = ("nadam", "nadamoptimizer")

    _use_nesterov = True


class CustomAdamOptimizer(BaseCustomOptimizer, _AdamMoments):
    """Adam in plain ops, to compare with, and as an example."""

    optimizer_names = ("customadam", "customadamoptimizer")

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, **kwargs):
        """
        :param beta1: share of the former value in the running mean of the gradients
        :param beta2: share of the former value in the running mean of the squared gradients
        :param epsilon: added to the denominator
        """
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _prepare(self) -> None:
        super()._prepare()
        self.step_size = self.learning_rate * tf.sqrt(1.0 - self.beta2_power) / (1.0 - self.beta1_power)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        m, v = self._slot(var, "m"), self._slot(var, "v")
        new_m = self._running_mean(m.read_value(), grad, "beta1", var)
        new_v = self._running_mean(v.read_value(), tf.square(grad), "beta2", var)
        step = self._tensor("step_size", var) * new_m / (tf.sqrt(new_v) + self._tensor("epsilon", var))
        return tf.group(
            m.assign(new_m, self.use_locking, read_value=False),
            v.assign(new_v, self.use_locking, read_value=False),
            var.assign_sub(step, self.use_locking, read_value=False),
        )


class GradVarianceScaledOptimizer(BaseCustomOptimizer, _AdamMoments):
    """
    Gradient descent that damps those entries of the gradient which are further from their mean than usual.

    `m` is the running mean of the gradient and `v` that of `d = (grad - m)²`, its variance, both corrected for their
    bias to 0: `var -= learning_rate * grad * min(1, (v + epsilon) / (d + epsilon))`.
    """

    optimizer_names = ("gradvariancescaled", "gradvariancescaledoptimizer")

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08, **kwargs):
        """
        :param beta1: share of the former value in the running mean
        :param beta2: share of the former value in the running variance
        :param epsilon: added to both parts of the fraction
        """
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _prepare(self) -> None:
        super()._prepare()
        self.mean_correction = 1.0 / (1.0 - self.beta1_power)
        self.variance_correction = 1.0 / (1.0 - self.beta2_power)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        m, v = self._slot(var, "m"), self._slot(var, "v")
        new_m = self._running_mean(m.read_value(), grad, "beta1", var)
        deviation = tf.math.squared_difference(grad, new_m * self._tensor("mean_correction", var))
        new_v = self._running_mean(v.read_value(), deviation, "beta2", var)
        variance = new_v * self._tensor("variance_correction", var)
        epsilon = self._tensor("epsilon", var)
        factor = tf.minimum((variance + epsilon) / (deviation + epsilon), 1.0)
        return tf.group(
            m.assign(new_m, self.use_locking, read_value=False),
            v.assign(new_v, self.use_locking, read_value=False),
            var.assign_sub(self._tensor("learning_rate", var) * grad * factor, self.use_locking, read_value=False),
        )


class AMSGradOptimizer(Optimizer):
    """
    Adam whose step sizes never grow: `v_hat = max(v_hat, v); var -= learning_rate * m / (sqrt(v_hat) + epsilon)`.

    Reddi et al. (2018), "On the Convergence of Adam and Beyond", Algorithm 2: no correction of the bias.
    """

    optimizer_names = ("amsgrad", "amsgradoptimizer")

    def __init__(
        self,
        learning_rate: Number = 0.001,
        decay: bool = False,
        beta1: float = 0.9,
        beta2: float = 0.99,
        epsilon: float = 0.0,
        var_list: Sequence[tf.Variable] = (),
    ):
        """
        :param decay: divide the learning rate by the root of the number of the step
        :param beta1: share of the former value in the running mean of the gradients
        :param beta2: share of the former value in the running mean of the squared gradients
        :param epsilon: added to the denominator; where that is 0, there is no step
        :param var_list: create the slots of these variables at once
        """
        super().__init__(learning_rate)
        self.decay = decay
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.var_list = list(var_list)
        self.m: dict[str, tf.Variable] = {}
        self.v: dict[str, tf.Variable] = {}
        self.v_hat: dict[str, tf.Variable] = {}
        self.create_slots(self.var_list)

    def apply_gradients(self, gradient_variables: Iterable[tuple[Gradient | None, tf.Variable]]) -> tf.Operation:
        return super().apply_gradients(gradient_variables)

    def _create_slots(self, var: tf.Variable) -> None:
        for name in ("m", "v", "v_hat"):
            getattr(self, name)[var.op.name] = self._slot(var, name, name=name)
        self.t = self._shared_variable("t", initial=0.0)

    def _prepare(self) -> None:
        self.next_t = self.t.read_value() + 1.0
        self.step_size = self.learning_rate / tf.sqrt(self.next_t) if self.decay else self.learning_rate

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        m, v, v_hat = (self._slot(var, name) for name in ("m", "v", "v_hat"))
        new_m = self._running_mean(m.read_value(), grad, "beta1", var)
        new_v = self._running_mean(v.read_value(), tf.square(grad), "beta2", var)
        new_v_hat = tf.maximum(v_hat.read_value(), new_v)
        step = tf.math.divide_no_nan(new_m, tf.sqrt(new_v_hat) + self._tensor("epsilon", var))
        return tf.group(
            m.assign(new_m, read_value=False),
            v.assign(new_v, read_value=False),
            v_hat.assign(new_v_hat, read_value=False),
            var.assign_sub(self._tensor("step_size", var) * step, read_value=False),
        )

    def _finish(self) -> list[tf.Operation]:
        return [self.t.assign(self.next_t, read_value=False)]
